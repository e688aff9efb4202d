"""Arithmetic of ``$((…))``, ``((…))`` and ``let``: 64-bit integers, assignments included."""

from __future__ import annotations

import re
from collections.abc import Callable

from vlmguard.check.shell.state import State, known, marks, scheduled
from vlmguard.check.shell.tree import NotUnderstood

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#\w+|\d+)|([A-Za-z_]\w*)(?:\[([^\]]*)\])?|"
    r"(<<=|>>=|\*\*|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%<>=!~&|^?:,()]))"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"), ("**",),
)  # fmt: skip
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="}


class Unknown(Exception):
    """A value in the expression is not known; carries its marks."""


class Unset(Unknown):
    """A variable that is not set here and that a scheduler will set; carries its name."""


def wrap(value: int) -> int:
    """To a signed 64-bit integer."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def evaluate(text: str, state: State, depth: int = 0) -> int:
    """The value. Raises `Unknown` and `NotUnderstood`."""
    if not known(text):
        raise Unknown(marks(text))
    if depth > 20 or len(text) > 10_000:
        raise NotUnderstood(f"arithmetic that refers to itself: {text[:40]}")
    return _Reader(text, state, depth).all()


class _Reader:
    def __init__(self, text: str, state: State, depth: int) -> None:
        self.state = state
        self.depth = depth
        self.tokens: list[re.Match[str]] = []
        self.at = 0
        self.idle = 0  # > 0 in a side of && || ?: that is not evaluated
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if not found:
                raise NotUnderstood(f"arithmetic {text.strip()[:60]!r}")
            self.tokens.append(found)
            at = found.end()

    def all(self) -> int:
        if not self.tokens:
            return 0
        value = self.comma()
        if self.at < len(self.tokens):
            raise NotUnderstood("arithmetic")
        return value

    def op(self, offset: int = 0) -> str:
        at = self.at + offset
        return (self.tokens[at][4] or "") if at < len(self.tokens) else ""

    def take(self, op: str) -> bool:
        if self.op() == op:
            self.at += 1
            return True
        return False

    def comma(self) -> int:
        value = self.assign()
        while self.take(","):
            value = self.assign()
        return value

    def assign(self) -> int:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is not None and token[2] and self.op(1) in _ASSIGN:
            op = self.op(1)
            self.at += 2
            value = self.assign()
            if op != "=":
                value = _apply(op[:-1], self.value(token), value)
            return self.store(token, value)
        return self.ternary()

    def ternary(self) -> int:
        value = self.binary(0)
        if not self.take("?"):
            return value
        yes = self.counted(self.comma, bool(value))
        if not self.take(":"):
            raise NotUnderstood("arithmetic: ? without :")
        no = self.counted(self.assign, not value)
        return yes if value else no

    def counted(self, read: Callable[[], int], counts: bool) -> int:
        self.idle += not counts
        value = read()
        self.idle -= not counts
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while (op := self.op()) in _LEVELS[level]:
            self.at += 1
            if op in ("&&", "||"):
                right = self.counted(lambda: self.binary(level + 1), bool(value) == (op == "&&"))
                value = int(bool(value) and bool(right) if op == "&&" else bool(value or right))
            elif op == "**":
                value = _apply(op, value, self.binary(level))
            else:
                value = _apply(op, value, self.binary(level + 1), bool(self.idle))
        return value

    def unary(self) -> int:
        for op in ("++", "--"):
            if self.take(op):
                token = self.name()
                return self.store(token, self.value(token) + (1 if op == "++" else -1))
        for op, act in (("-", lambda v: -v), ("+", int), ("!", lambda v: int(not v)),
                        ("~", lambda v: ~v)):  # fmt: skip
            if self.take(op):
                return wrap(act(self.unary()))
        return self.postfix()

    def name(self) -> re.Match[str]:
        if self.at < len(self.tokens) and self.tokens[self.at][2]:
            self.at += 1
            return self.tokens[self.at - 1]
        raise NotUnderstood("arithmetic: ++ without a name")

    def postfix(self) -> int:
        if self.take("("):
            value = self.comma()
            if not self.take(")"):
                raise NotUnderstood("arithmetic: ( without )")
            return value
        if self.at >= len(self.tokens) or self.tokens[self.at][4]:
            raise NotUnderstood("arithmetic: a value is missing")
        token = self.tokens[self.at]
        self.at += 1
        if token[1]:
            return _number(token[1])
        value = self.value(token)
        if self.op() in ("++", "--"):
            self.store(token, value + (1 if self.take("++") else -1 if self.take("--") else 0))
        return value

    def value(self, token: re.Match[str]) -> int:
        name, index = token[2], token[3]
        if index is not None:
            from vlmguard.check.shell.state import Array

            found = self.state.get(name)
            key = str(evaluate(index, self.state, self.depth + 1))
            text = found.items.get(key, "") if isinstance(found, Array) else self.state.text(name)
        else:
            text = self.state.text(name)
            if not self.idle and self.state.get(name) is None and scheduled(name):
                raise Unset(name)
        if self.idle or not text.strip():
            return 0
        return evaluate(text, self.state, self.depth + 1)

    def store(self, token: re.Match[str], value: int) -> int:
        value = wrap(value)
        if token[3] is not None:
            raise NotUnderstood("arithmetic that sets an array")
        if not self.idle:
            self.state.set(token[2], str(value))
        return value


def _number(text: str) -> int:
    try:
        if "#" in text:
            base, _, digits = text.partition("#")
            return wrap(int(digits, int(base)))
        if text[:2] in ("0x", "0X"):
            return wrap(int(text, 16))
        return wrap(int(text, 8) if text.startswith("0") and len(text) > 1 else int(text[:30]))
    except ValueError:
        raise NotUnderstood(f"the number {text}") from None


def _apply(op: str, left: int, right: int, idle: bool = False) -> int:
    if op in ("/", "%"):
        if right == 0:
            if idle:
                return 0
            raise NotUnderstood("a division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrap(quotient if op == "/" else left - quotient * right)
    if op == "**":
        if right < 0:
            raise NotUnderstood("a negative exponent")
        return wrap(pow(left, right, 1 << 64))
    if op in ("<<", ">>"):
        return wrap(left << (right % 64) if op == "<<" else left >> (right % 64))
    simple: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
        "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
        "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    }  # fmt: skip
    return wrap(simple[op](left, right))
