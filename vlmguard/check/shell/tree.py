"""What a script is made of."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotUnderstood(Exception):
    """A construct that this reader does not know; ``line`` counts from 1."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


@dataclass(frozen=True)
class Text:
    """Literal characters."""

    value: str
    quoted: bool = False


@dataclass(frozen=True)
class Param:
    """``$name`` or ``${…}``.

    Attributes:
        name: variable, digit, or one of ``@ * # ? $ ! -``.
        index: what stands in ``[…]``, None if nothing does.
        op: ``:-``, ``##``, ``//``, ``:`` (substring), …; "" for none.
        args: the operator's words.
        length, indirect: ``${#name}``, ``${!name}``.
    """

    name: str
    quoted: bool = False
    index: Word | None = None
    op: str = ""
    args: tuple[Word, ...] = ()
    length: bool = False
    indirect: bool = False


@dataclass(frozen=True)
class Substitution:
    """``$(…)``, backquotes, ``<(…)`` and ``>(…)``."""

    body: Sequence
    quoted: bool = False
    process: str = ""
    source: str = ""


@dataclass(frozen=True)
class Arithmetic:
    """``$((…))``."""

    expression: Word
    quoted: bool = False


Part = Text | Param | Substitution | Arithmetic


@dataclass(frozen=True)
class Word:
    """Parts that stand without a gap."""

    parts: tuple[Part, ...] = ()

    @property
    def literal(self) -> str | None:
        """Its text where nothing in it is quoted or expanded."""
        if all(isinstance(part, Text) and not part.quoted for part in self.parts):
            return "".join(part.value for part in self.parts if isinstance(part, Text))
        return None


@dataclass
class Redirection:
    """``> file``, ``<< END``, …; the body of a here-document is filled in at the next line."""

    op: str
    target: Word
    number: str = ""
    body: Word | None = None


@dataclass(frozen=True)
class Assignment:
    """``name=value``, ``name[i]=value``, ``name+=(…)``; elements are (index, word)."""

    name: str
    value: Word = Word()
    index: Word | None = None
    append: bool = False
    elements: tuple[tuple[Word | None, Word], ...] | None = None


@dataclass(frozen=True)
class Command:
    """Base of all commands."""

    line: int = 0
    redirections: tuple[Redirection, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Simple(Command):
    assignments: tuple[Assignment, ...] = ()
    words: tuple[Word | Assignment, ...] = ()


@dataclass(frozen=True)
class Sequence(Command):
    """Commands one after another; the flag says that it runs in the background."""

    items: tuple[tuple[Command, bool], ...] = ()


@dataclass(frozen=True)
class Pipeline(Command):
    stages: tuple[Command, ...] = ()
    negated: bool = False


@dataclass(frozen=True)
class AndOr(Command):
    first: Command = Command()
    rest: tuple[tuple[str, Command], ...] = ()


@dataclass(frozen=True)
class Group(Command):
    body: Sequence = Sequence()
    subshell: bool = False


@dataclass(frozen=True)
class If(Command):
    branches: tuple[tuple[Sequence, Sequence], ...] = ()
    otherwise: Sequence | None = None


@dataclass(frozen=True)
class While(Command):
    condition: Sequence = Sequence()
    body: Sequence = Sequence()
    until: bool = False


@dataclass(frozen=True)
class For(Command):
    name: str = ""
    words: tuple[Word, ...] | None = None
    body: Sequence = Sequence()


@dataclass(frozen=True)
class CountingFor(Command):
    parts: tuple[Word, Word, Word] = (Word(), Word(), Word())
    body: Sequence = Sequence()


@dataclass(frozen=True)
class Case(Command):
    word: Word = Word()
    clauses: tuple[tuple[tuple[Word, ...], Sequence, str], ...] = ()


@dataclass(frozen=True)
class Function(Command):
    name: str = ""
    body: Command = Command()


@dataclass(frozen=True)
class Condition(Command):
    """``[[ … ]]``: words and operators in order; an operator is a plain string."""

    tokens: tuple[Word | str, ...] = ()


@dataclass(frozen=True)
class Let(Command):
    """``(( … ))``."""

    expression: Word = Word()
