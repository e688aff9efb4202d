"""Script text → tree. Recursive descent; what it does not know raises `NotUnderstood`."""

from __future__ import annotations

import re

from vlmguard.check.shell.tree import (
    AndOr,
    Assignment,
    Case,
    Command,
    Condition,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Let,
    Part,
    Pipeline,
    Redirection,
    Sequence,
    Simple,
    While,
    Word,
)
from vlmguard.check.shell.words import BLANK, META, WordReader

_RESERVED = {"then", "else", "elif", "fi", "do", "done", "esac", "}", "in"}
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_INDEXED = re.compile(r"([A-Za-z_]\w*)\[")
_REDIRECT = re.compile(r"(\d*|\{\w+\})(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)")
_FUNCTION = re.compile(r"([A-Za-z_][\w.:-]*)[ \t]*\([ \t]*\)")
_TAKES_ASSIGNMENTS = {"export", "declare", "typeset", "local", "readonly"}


def parse(source: str, line: int = 1) -> Sequence:
    """A whole script. Raises `NotUnderstood`."""
    return Parser(source.replace("\r\n", "\n"), line).commands("")


class Parser(WordReader):
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

    def if_(self, line: int, word: str) -> Command:
        branches = []
        otherwise = None
        while word in ("if", "elif"):
            self.expect(word)
            condition = self.commands(words=("then",))
            self.expect("then")
            branches.append((condition, self.commands(words=("elif", "else", "fi"))))
            word = self.reserved()
        if word == "else":
            self.expect("else")
            otherwise = self.commands(words=("fi",))
        self.expect("fi")
        return If(line, branches=tuple(branches), otherwise=otherwise)

    def while_(self, line: int, word: str) -> Command:
        self.expect(word)
        condition = self.commands(words=("do",))
        return While(line, condition=condition, body=self.loop(), until=word == "until")

    def loop(self) -> Sequence:
        self.gaps()
        self.take(";")
        self.gaps()
        if self.reserved() == "{":
            self.expect("{")
            return self.commands(closer="}")
        self.expect("do")
        body = self.commands(words=("done",))
        self.expect("done")
        return body

    def for_(self, line: int, word: str) -> Command:
        self.expect("for")
        self.blanks()
        if self.take("(("):
            parts = [self.clause(";"), self.clause(";"), self.arithmetic("))")]
            return CountingFor(line, parts=(parts[0], parts[1], parts[2]), body=self.loop())
        name = self.word().literal or ""
        if not name.isidentifier():
            raise self.fail("for without a name")
        self.gaps()
        words = None
        if self.reserved() == "in":
            self.expect("in")
            words = []
            self.blanks()
            while not (self.end or self.peek(";") or self.peek("\n")):
                words.append(self.word_or_fail())
                self.blanks()
        return For(line, name=name, words=None if words is None else tuple(words), body=self.loop())

    def clause(self, closer: str) -> Word:
        return self.arithmetic(closer)

    def word_or_fail(self) -> Word:
        start = self.at
        word = self.word()
        if self.at == start:
            raise self.fail(f"{self.source[self.at : self.at + 1]!r} where a word should be")
        return word

    def case(self, line: int, word: str) -> Command:
        self.expect("case")
        self.blanks()
        value = self.word()
        self.expect("in")
        clauses = []
        while True:
            self.gaps()
            if self.reserved() == "esac":
                self.expect("esac")
                return Case(line, word=value, clauses=tuple(clauses))
            self.take("(")
            patterns = []
            while True:
                self.blanks()
                patterns.append(self.word_or_fail())
                self.blanks()
                if not self.take("|"):
                    break
            if not self.take(")"):
                raise self.fail("a pattern without its )")
            body = self.commands(words=(";;", "esac"))
            end = next((e for e in (";;&", ";;", ";&") if self.take(e)), ";;")
            clauses.append((tuple(patterns), body, end))

    def group(self, line: int, word: str) -> Command:
        self.expect("{")
        body = self.commands(words=("}",))
        self.expect("}")
        return Group(line, body=body)

    def function(self, line: int, word: str) -> Command:
        self.expect("function")
        self.blanks()
        name = self.word().literal or ""
        self.blanks()
        if self.take("("):
            self.blanks()
            self.take(")")
        return self.defined(line, name)

    def defined(self, line: int, name: str) -> Command:
        self.gaps()
        return Function(line, name=name, body=self.command())

    def condition(self, line: int, word: str) -> Command:
        self.expect("[[")
        tokens: list[Word | str] = []
        while True:
            self.gaps()
            if self.end:
                raise self.fail("[[ without its ]]")
            if self.reserved() == "" and self.peek("]]"):
                self.at += 2
                return Condition(line, tokens=tuple(tokens))
            if tokens and tokens[-1] == "=~":
                tokens.append(self.pattern())
                continue
            op = next((op for op in ("&&", "||", "(", ")", "<", ">") if self.take(op)), "")
            if op:
                tokens.append(op)
            else:
                found = self.word()
                literal = found.literal
                known = literal in ("=~", "==", "=", "!=", "!")
                tokens.append(literal if known and literal else found)

    def pattern(self) -> Word:
        """The right side of ``=~``: parentheses and bars belong to it."""
        parts: list[Part] = []
        depth = 0
        while not self.end:
            here = self.source[self.at]
            if depth == 0 and (here in " \t\n" or self.peek("&&")):
                break
            depth += {"(": 1, ")": -1}.get(here, 0)
            self.piece(parts)
        return Word(tuple(parts))

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
