"""Compound commands: ``if``, loops, ``case``, groups, functions, ``[[ … ]]``."""

from __future__ import annotations

from vlmguard.check.shell.tree import (
    Case,
    Command,
    Condition,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Part,
    Sequence,
    While,
    Word,
)
from vlmguard.check.shell.words import WordReader


class Compound(WordReader):
    """What begins with a reserved word."""

    def list_until(self, *words: str) -> Sequence:
        """Commands up to a reserved word. The parser's."""
        raise NotImplementedError

    def gaps(self) -> None:
        raise NotImplementedError

    def blanks(self) -> None:
        raise NotImplementedError

    def reserved(self) -> str:
        raise NotImplementedError

    def expect(self, word: str) -> None:
        raise NotImplementedError

    def command(self) -> Command:
        raise NotImplementedError

    def if_(self, line: int, word: str) -> Command:
        branches = []
        otherwise = None
        while word in ("if", "elif"):
            self.expect(word)
            condition = self.list_until("then")
            self.expect("then")
            branches.append((condition, self.list_until("elif", "else", "fi")))
            word = self.reserved()
        if word == "else":
            self.expect("else")
            otherwise = self.list_until("fi")
        self.expect("fi")
        return If(line, branches=tuple(branches), otherwise=otherwise)

    def while_(self, line: int, word: str) -> Command:
        self.expect(word)
        condition = self.list_until("do")
        return While(line, condition=condition, body=self.loop(), until=word == "until")

    def loop(self) -> Sequence:
        self.gaps()
        self.take(";")
        self.gaps()
        if self.reserved() == "{":
            self.expect("{")
            return self.commands(closer="}")
        self.expect("do")
        body = self.list_until("done")
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
        clauses: list[tuple[tuple[Word, ...], Sequence, str]] = []
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
            body = self.list_until(";;", "esac")
            end = next((e for e in (";;&", ";;", ";&") if self.take(e)), ";;")
            clauses.append((tuple(patterns), body, end))

    def group(self, line: int, word: str) -> Command:
        self.expect("{")
        body = self.list_until("}")
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
