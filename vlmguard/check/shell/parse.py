"""Script text → tree. Recursive descent; what it does not know raises `NotUnderstood`."""

from __future__ import annotations

import re

from vlmguard.check.shell.compound import Compound
from vlmguard.check.shell.tree import (
    AndOr,
    Assignment,
    Command,
    Group,
    Let,
    Part,
    Pipeline,
    Redirection,
    Sequence,
    Simple,
    Word,
)
from vlmguard.check.shell.words import BLANK, META

_RESERVED = {"then", "else", "elif", "fi", "do", "done", "esac", "}", "in"}
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_INDEXED = re.compile(r"([A-Za-z_]\w*)\[")
_REDIRECT = re.compile(r"(\d*|\{\w+\})(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)")
_FUNCTION = re.compile(r"([A-Za-z_][\w.:-]*)[ \t]*\([ \t]*\)")
_TAKES_ASSIGNMENTS = {"export", "declare", "typeset", "local", "readonly"}


WINDOWS = "\r\n"
CARRIED = "lines that end as on Windows: bash reads the CR as part of each (dos2unix mends it)"


def parse(source: str, line: int = 1) -> Sequence:
    """A whole script. Raises `NotUnderstood`."""
    return Parser(source.replace(WINDOWS, "\n"), line).commands("")


class Parser(Compound):
    """Commands, on top of words."""

    def __init__(self, source: str, line: int = 1, depth: int = 0) -> None:
        super().__init__(source, line, depth)
        self.pending: list[Redirection] = []

    # blanks, comments, newlines, here-documents
    def blanks(self) -> None:
        while not self.end:
            if self.source[self.at] in BLANK:
                self.at += 1
            elif self.peek("\\\n"):
                self.at += 2
            elif self.peek("#") and (self.at == 0 or self.source[self.at - 1] in META):
                found = self.source.find("\n", self.at)
                self.at = len(self.source) if found < 0 else found
            else:
                return

    def newline(self) -> bool:
        if not self.take("\n"):
            return False
        pending, self.pending = self.pending, []
        for redirection in pending:
            self.document(redirection)
        return True

    def gaps(self) -> None:
        """Blanks and newlines."""
        self.blanks()
        while self.newline():
            self.blanks()

    def document(self, redirection: Redirection) -> None:
        """The body of a here-document, up to its word."""
        parts = redirection.target.parts
        end = "".join(getattr(part, "value", "") for part in parts)
        quoted = any(getattr(part, "quoted", False) for part in parts)
        lines: list[str] = []
        start = self.line
        while not self.end:
            found = self.source.find("\n", self.at)
            stop = len(self.source) if found < 0 else found
            line = self.source[self.at : stop]
            self.at = min(stop + 1, len(self.source))
            line = line.lstrip("\t") if redirection.op == "<<-" else line
            if line == end:
                break
            lines.append(line + "\n")
        inner = Parser("".join(lines), start, self.depth + 1)
        body: list[Part] = []
        if quoted:
            from vlmguard.check.shell.tree import Text

            body.append(Text("".join(lines), True))
        else:
            inner.double(body, "")
        redirection.body = Word(tuple(body))

    # lists
    def commands(self, closer: str = "", words: tuple[str, ...] = ()) -> Sequence:
        """Commands up to ``closer`` (taken), to a reserved word of ``words`` (left), or the end."""
        line = self.line
        items: list[tuple[Command, bool]] = []
        while True:
            self.gaps()
            if closer and self.take(closer):
                return Sequence(line, items=tuple(items))
            if self.end:
                if closer or words:
                    raise self.fail(f"{closer or ' or '.join(words)} is missing")
                return Sequence(line, items=tuple(items))
            if self.reserved() in words or (words and ";;" in words and self.peek(";;")):
                return Sequence(line, items=tuple(items))
            if ";;" in words and (self.peek(";&") or self.peek("esac")):
                return Sequence(line, items=tuple(items))
            items.append((self.and_or(), self.separator(closer)))

    def list_until(self, *words: str) -> Sequence:
        return self.commands(words=words)

    def separator(self, closer: str) -> bool:
        """What stands behind a command; whether it was ``&``."""
        self.blanks()
        if self.peek(";;") or self.peek(";&"):
            return False
        if self.take(";"):
            return False
        if self.peek("&") and not self.peek("&&"):
            self.at += 1
            return True
        if self.end or self.peek("\n") or (closer and self.peek(closer)):
            return False
        raise self.fail(f"{self.source[self.at]!r} where a command should end")

    def reserved(self) -> str:
        found = re.compile(r"[a-z]+|[{}!]|\[\[").match(self.source, self.at)
        if not found:
            return ""
        following = self.source[found.end() : found.end() + 1]
        return found[0] if not following or following in META else ""

    def expect(self, word: str) -> None:
        self.gaps()
        if self.reserved() != word:
            raise self.fail(f"{word} is missing")
        self.at += len(word)

    def and_or(self) -> Command:
        line = self.line
        first = self.pipeline()
        rest: list[tuple[str, Command]] = []
        while True:
            self.blanks()
            op = next((op for op in ("&&", "||") if self.take(op)), "")
            if not op:
                return AndOr(line, first=first, rest=tuple(rest)) if rest else first
            self.gaps()
            rest.append((op, self.pipeline()))

    def pipeline(self) -> Command:
        line = self.line
        negated = False
        while self.reserved() in ("!", "time"):
            negated ^= self.reserved() == "!"
            self.at += len(self.reserved())
            self.blanks()
            if self.peek("-p") and not negated:
                self.at += 2
                self.blanks()
        stages = [self.command()]
        while True:
            self.blanks()
            if self.peek("||") or not (self.take("|&") or self.take("|")):
                break
            self.gaps()
            stages.append(self.command())
        if len(stages) == 1 and not negated:
            return stages[0]
        return Pipeline(line, stages=tuple(stages), negated=negated)

    # one command
    def command(self) -> Command:
        line = self.line
        word = self.reserved()
        kinds = {"if": self.if_, "while": self.while_, "until": self.while_, "for": self.for_,
                 "case": self.case, "{": self.group, "[[": self.condition,
                 "function": self.function}  # fmt: skip
        if word in kinds:
            return self.redirected(kinds[word](line, word))
        if word in ("select", "coproc") or word in _RESERVED:
            raise self.fail(f"{word} here")
        if self.take("(("):
            mark = self.at
            try:
                return self.redirected(Let(line, expression=self.arithmetic("))")))
            except Exception:
                self.at = mark - 1
                return self.redirected(Group(line, body=self.commands(")"), subshell=True))
        if self.take("("):
            return self.redirected(Group(line, body=self.commands(")"), subshell=True))
        found = _FUNCTION.match(self.source, self.at)
        if found:
            self.at = found.end()
            return self.defined(line, found[1])
        return self.simple(line)

    def redirected(self, command: Command) -> Command:
        found: list[Redirection] = []
        while (redirection := self.redirection()) is not None:
            found.append(redirection)
        object.__setattr__(command, "redirections", tuple(found))
        return command

    def redirection(self) -> Redirection | None:
        self.blanks()
        found = _REDIRECT.match(self.source, self.at)
        if not found or self.source[found.end() : found.end() + 1] == "(":
            return None
        self.at = found.end()
        self.blanks()
        redirection = Redirection(found[2], self.word(), found[1])
        if found[2] in ("<<", "<<-"):
            self.pending.append(redirection)
        return redirection

    # simple commands
    def simple(self, line: int) -> Command:
        assignments: list[Assignment] = []
        words: list[Word | Assignment] = []
        redirections: list[Redirection] = []
        while True:
            self.blanks()
            redirection = self.redirection()
            if redirection is not None:
                redirections.append(redirection)
                continue
            if self.end or self.source[self.at] in "\n;&|)":
                break
            declares = bool(words) and isinstance(words[0], Word)
            declares = declares and getattr(words[0], "literal", "") in _TAKES_ASSIGNMENTS
            found = self.assignment() if not words or declares else None
            if found is not None:
                words.append(found) if words else assignments.append(found)
            elif self.source[self.at] == "(":
                raise self.fail("( within a command")
            else:
                words.append(self.word_or_fail())
        if not (assignments or words or redirections):
            raise self.fail(f"{self.source[self.at : self.at + 2]!r} where a command should be")
        return Simple(
            line,
            assignments=tuple(assignments),
            words=tuple(words),
            redirections=tuple(redirections),
        )

    def assignment(self) -> Assignment | None:
        start = self.at
        index = None
        found = _ASSIGN.match(self.source, self.at)
        if found:
            name, op = found[1], found[2]
            self.at = found.end()
        else:
            found = _INDEXED.match(self.source, self.at)
            if not found:
                return None
            name = found[1]
            self.at = found.end()
            index = self.word("]\n")
            self.at += 1
            op = "+=" if self.take("+=") else "=" if self.take("=") else ""
            if not op:
                self.at = start
                return None
        append = op == "+="
        if self.take("("):
            return Assignment(name, append=append, elements=tuple(self.elements()))
        return Assignment(name, self.word(), index, append)

    def elements(self) -> list[tuple[Word | None, Word]]:
        found: list[tuple[Word | None, Word]] = []
        while True:
            self.gaps()
            if self.take(")"):
                return found
            if self.end:
                raise self.fail("an array without its )")
            index = None
            if self.peek("["):
                mark = self.at
                self.at += 1
                index = self.word("]\n")
                self.at += 1
                if not self.take("="):
                    self.at, index = mark, None
            found.append((index, self.word() if index is not None else self.word_or_fail()))
