"""``test``, ``[`` and ``[[``: True, False, or None where a value is not known."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from vlmguard.check.shell import arith, patterns
from vlmguard.check.shell.expand import Expander
from vlmguard.check.shell.state import State, known
from vlmguard.check.shell.tree import NotUnderstood, Word

Answer = bool | None
_UNARY = set("abcdefghknprstuvwxzGLNOSR")
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, ">": lambda a, b: a > b,
}  # fmt: skip


def invert(answer: Answer) -> Answer:
    return None if answer is None else not answer


def unary(op: str, value: str, state: State) -> Answer:
    """``-f path``, ``-z text``, …"""
    kind = op[1:]
    if not known(value):
        return None
    if kind in "zn":
        return (not value) == (kind == "z")
    if kind == "v":
        return state.get(value.partition("[")[0]) is not None
    if kind == "t":
        return False
    if kind == "o":
        return False
    found = state.kind(value)
    if kind in "ae":
        return bool(found)
    if kind == "f":
        return found == "file"
    if kind == "d":
        return found == "folder"
    if kind == "s":
        return bool(found) and (found != "file" or bool(state.read(value)) or _size(state, value))
    if kind in "rwx":
        path = state.path(value)
        mode = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[kind]
        return path in state.files or path in state.folders or os.access(path, mode)
    if kind in "hL":
        return os.path.islink(state.path(value))
    return None


def _size(state: State, value: str) -> bool:
    try:
        return os.path.getsize(state.path(value)) > 0
    except OSError:
        return False


def numbers(left: str, op: str, right: str, state: State, expression: bool) -> Answer:
    if not known(left, right):
        return None
    try:
        if expression:
            a, b = arith.evaluate(left, state), arith.evaluate(right, state)
        else:
            a, b = int(left), int(right)
    except arith.Unknown:
        return None
    except ValueError:
        return False
    return _NUMBERS[op](a, b)


def test(words: Sequence[str], state: State) -> Answer:
    """``test WORDS`` (without ``[`` and ``]``)."""
    return _Test(list(words), state).all()


class _Test:
    def __init__(self, words: list[str], state: State) -> None:
        self.words = words
        self.state = state

    def all(self) -> Answer:
        if not self.words:
            return False
        answer = self.either()
        if self.words:
            raise NotUnderstood(f"test: {self.words[0]!r}")
        return answer

    def either(self) -> Answer:
        answer = self.both()
        while self.words[:1] == ["-o"]:
            self.words.pop(0)
            answer = or_(answer, self.both())
        return answer

    def both(self) -> Answer:
        answer = self.one()
        while self.words[:1] == ["-a"]:
            self.words.pop(0)
            answer = and_(answer, self.one())
        return answer

    def one(self) -> Answer:
        words = self.words
        if not words:
            raise NotUnderstood("test: a word is missing")
        if len(words) >= 3 and (words[1] in _NUMBERS or words[1] in _TEXTS):
            left, op, right = (words.pop(0) for _ in range(3))
            if op in _NUMBERS:
                return numbers(left, op, right, self.state, False)
            return _TEXTS[op](left, right) if known(left, right) else None
        if words[0] == "!" and len(words) > 1:
            words.pop(0)
            return invert(self.one())
        if words[0] == "(" and len(words) > 2:
            words.pop(0)
            answer = self.either()
            if words[:1] != [")"]:
                raise NotUnderstood("test: ( without )")
            words.pop(0)
            return answer
        if len(words) > 1 and re.fullmatch("-[a-zA-Z]", words[0]) and words[0][1] in _UNARY:
            return unary(words.pop(0), words.pop(0), self.state)
        word = words.pop(0)
        return bool(word) if known(word) else None


def and_(left: Answer, right: Answer) -> Answer:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def or_(left: Answer, right: Answer) -> Answer:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


class Double:
    """``[[ … ]]``: words are expanded one by one, patterns on the right side."""

    def __init__(self, tokens: Sequence[Word | str], expander: Expander, state: State) -> None:
        self.tokens = list(tokens)
        self.expander = expander
        self.state = state

    def all(self) -> Answer:
        answer = self.either()
        if self.tokens:
            raise NotUnderstood("[[: more than was expected")
        return answer

    def either(self) -> Answer:
        answer = self.both()
        while self.tokens[:1] == ["||"]:
            self.tokens.pop(0)
            answer = or_(answer, self.both())
        return answer

    def both(self) -> Answer:
        answer = self.one()
        while self.tokens[:1] == ["&&"]:
            self.tokens.pop(0)
            answer = and_(answer, self.one())
        return answer

    def one(self) -> Answer:
        if not self.tokens:
            raise NotUnderstood("[[: a word is missing")
        first = self.tokens.pop(0)
        if first == "!":
            return invert(self.one())
        if first == "(":
            answer = self.either()
            if self.tokens[:1] != [")"]:
                raise NotUnderstood("[[: ( without )")
            self.tokens.pop(0)
            return answer
        if isinstance(first, str):
            raise NotUnderstood(f"[[: {first!r}")
        op = self.operator()
        if op in _NUMBERS or op in _TEXTS or op == "=~":
            self.tokens.pop(0)
            return self.compare(first, op)
        literal = first.literal or ""
        if re.fullmatch("-[a-zA-Z]", literal) and self.tokens and isinstance(self.tokens[0], Word):
            word = self.tokens.pop(0)
            assert isinstance(word, Word)
            return unary(literal, self.expander.text(word, self.state), self.state)
        text = self.expander.text(first, self.state)
        return bool(text) if known(text) else None

    def operator(self) -> str:
        if not self.tokens:
            return ""
        following = self.tokens[0]
        return following if isinstance(following, str) else following.literal or ""

    def compare(self, first: Word, op: str) -> Answer:
        if not self.tokens or isinstance(self.tokens[0], str):
            raise NotUnderstood(f"[[: {op} without a right side")
        right = self.tokens.pop(0)
        assert isinstance(right, Word)
        left = self.expander.text(first, self.state)
        if op in _NUMBERS:
            return numbers(left, op, self.expander.text(right, self.state), self.state, True)
        if op == "=~":
            return self.matches(left, self.expander.regex(right, self.state))
        if op in ("<", ">"):
            other = self.expander.text(right, self.state)
            return _TEXTS[op](left, other) if known(left, other) else None
        pattern = self.expander.pattern(right, self.state)
        if not known(left, pattern):
            return None
        found = patterns.glob(pattern).fullmatch(left) is not None
        return found != (op == "!=")

    def matches(self, left: str, pattern: str) -> Answer:
        if not known(left, pattern):
            return None
        if len(left) > 10_000:
            raise NotUnderstood("=~ on a long text")
        found = patterns.regex(pattern).search(left)
        if found:
            from vlmguard.check.shell.state import Array

            groups = [found[0], *(group or "" for group in found.groups())]
            self.state.set("BASH_REMATCH", Array({str(n): g for n, g in enumerate(groups)}))
        return found is not None
