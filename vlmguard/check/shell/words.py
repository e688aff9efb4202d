"""Reads words: quotes, expansions, substitutions. The base of the parser."""

from __future__ import annotations

import re

from vlmguard.check.shell.tree import (
    Arithmetic,
    NotUnderstood,
    Param,
    Part,
    Sequence,
    Substitution,
    Text,
    Word,
)

BLANK = " \t"
META = " \t\n;&|()<>"
_PLAIN = re.compile(r"[\w.,%=-]+")
"""Characters that end no word and begin nothing, wherever they stand."""
_NAME = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!\-]")
_LONG = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!\-]")
_OPS = (":-", ":=", ":?", ":+", "##", "%%", "//", "/#", "/%", "^^", ",,",
        "-", "=", "?", "+", "#", "%", "/", "^", ",", ":", "@")  # fmt: skip
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class WordReader:
    """A position in a script."""

    def __init__(self, source: str, line: int = 1, depth: int = 0) -> None:
        self.source = source
        self.at = 0
        self.base = line
        self.depth = depth
        self.counted = (0, line)  # a place in the source, and its line
        if depth > 60:
            raise NotUnderstood("nested too deeply", line)

    @property
    def line(self) -> int:
        at, line = self.counted if self.counted[0] <= self.at else (0, self.base)
        self.counted = self.at, line + self.source.count("\n", at, self.at)
        return self.counted[1]

    def fail(self, what: str) -> NotUnderstood:
        return NotUnderstood(what, self.line)

    def peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    @property
    def end(self) -> bool:
        return self.at >= len(self.source)

    def commands(self, closer: str) -> Sequence:
        """Commands up to ``closer``. The parser's."""
        raise NotImplementedError

    def word(self, stop: str = META) -> Word:
        """One word, up to an unquoted character of ``stop``."""
        parts: list[Part] = []
        while not self.end:
            here = self.source[self.at]
            if here in "<>" and self.source[self.at + 1 : self.at + 2] == "(" and here in stop:
                if parts and stop == META:
                    break
                self.at += 2
                parts.append(self.substitution(False, here))
            elif here in stop:
                break
            else:
                self.piece(parts)
        return Word(tuple(parts))

    def piece(self, parts: list[Part]) -> None:
        """One quoted string, expansion or character."""
        here = self.source[self.at]
        if here == "\\":
            following = self.source[self.at + 1 : self.at + 2]
            self.at += 2
            if following != "\n":
                parts.append(Text(following, True))
        elif here == "'":
            parts.append(Text(self.until("'"), True))
        elif here == '"':
            self.at += 1
            self.double(parts)
        elif here == "$":
            self.dollar(parts, False)
        elif here == "`":
            parts.append(self.backquoted(False))
        else:
            self.plain(parts)

    def plain(self, parts: list[Part]) -> None:
        run = _PLAIN.match(self.source, self.at)
        text = run[0] if run else self.source[self.at]
        self.at += len(text)
        if parts and isinstance(parts[-1], Text) and not parts[-1].quoted:
            parts[-1] = Text(parts[-1].value + text)
        else:
            parts.append(Text(text))

    def until(self, quote: str) -> str:
        found = self.source.find(quote, self.at + 1)
        if found < 0:
            raise self.fail(f"a {quote} without its end")
        text = self.source[self.at + 1 : found]
        self.at = found + 1
        return text

    def double(self, parts: list[Part], closer: str = '"') -> None:
        """The inside of double quotes; a here-document has no closer."""
        text = ""
        before = len(parts)
        while not (closer and self.peek(closer)):
            if self.end:
                if closer:
                    raise self.fail('a " without its end')
                break
            here = self.source[self.at]
            if here == "\\" and self.source[self.at + 1 : self.at + 2] in (
                "$",
                "`",
                '"',
                "\\",
                "\n",
            ):
                following = self.source[self.at + 1]
                if following == '"' and not closer:
                    text += "\\"
                text += "" if following == "\n" else following
                self.at += 2
            elif here in "$`":
                if text:
                    parts.append(Text(text, True))
                text = ""
                if here == "$":
                    self.dollar(parts, True)
                else:
                    parts.append(self.backquoted(True))
            else:
                text += here
                self.at += 1
        self.at += len(closer)
        if text or len(parts) == before:
            parts.append(Text(text, True))

    def dollar(self, parts: list[Part], quoted: bool) -> None:
        """What follows a ``$``."""
        if self.take("$(("):
            mark = self.at
            try:
                parts.append(Arithmetic(self.arithmetic("))"), quoted))
                return
            except NotUnderstood:
                self.at = mark - 1  # `$((` may begin a subshell
                parts.append(self.substitution(quoted))
        elif self.take("$("):
            parts.append(self.substitution(quoted))
        elif self.take("${"):
            parts.append(self.braced(quoted))
        elif self.take("$["):
            parts.append(Arithmetic(self.arithmetic("]"), quoted))
        elif not quoted and self.take("$'"):
            parts.append(Text(self.ansi(), True))
        elif not quoted and self.take('$"'):
            self.double(parts)
        else:
            found = _NAME.match(self.source, self.at + 1)
            if found:
                self.at = found.end()
                parts.append(Param(found[0], quoted))
            else:
                self.at += 1
                parts.append(Text("$", quoted))

    def ansi(self) -> str:
        found = re.compile(r"((?:[^'\\]|\\.)*)'", re.S).match(self.source, self.at)
        if not found:
            raise self.fail("a $' without its end")
        self.at = found.end()

        def one(escape: re.Match[str]) -> str:
            kind = escape[1]
            if kind[0] in "xu" and len(kind) > 1:
                return chr(int(kind[1:], 16))
            if kind[0].isdigit():
                return chr(int(kind, 8))
            return _ANSI.get(kind, kind)

        return re.sub(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|[0-7]{1,3}|.)", one, found[1],
                      flags=re.S)  # fmt: skip

    def substitution(self, quoted: bool, process: str = "") -> Substitution:
        """``$(`` or ``<(`` has been read."""
        start = self.at
        self.depth += 1
        if self.depth > 60:
            raise self.fail("nested too deeply")
        body = self.commands(")")
        self.depth -= 1
        return Substitution(body, quoted, process, self.source[start : self.at - 1].strip())

    def backquoted(self, quoted: bool) -> Substitution:
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.S).match(self.source, self.at)
        if not found:
            raise self.fail("a ` without its end")
        text = re.sub(r"\\([$`\\])", r"\1", found[1])
        inner = type(self)(text, self.line, self.depth + 1)
        self.at = found.end()
        return Substitution(inner.commands(""), quoted, "", text.strip())

    def arithmetic(self, closer: str) -> Word:
        """An expression up to ``closer``; parentheses in it are counted."""
        parts: list[Part] = []
        depth = 0
        while not self.end:
            if depth == 0 and self.take(closer):
                return Word(tuple(parts))
            here = self.source[self.at]
            if here in "([":
                depth += 1
            elif here in ")]":
                depth -= 1
                if depth < 0:
                    break
            if here == '"':
                self.at += 1
            elif here in "$`\\":
                self.piece(parts)
            else:
                self.plain(parts)
        raise self.fail(f"an expression without its {closer}")

    def braced(self, quoted: bool) -> Param:
        """``${`` has been read."""
        length = indirect = False
        following = self.source[self.at + 1 : self.at + 2]
        if self.peek("#") and following != "}" and (following.isalnum() or following in "_@*"):
            length, self.at = True, self.at + 1
        elif self.peek("!") and (following.isalnum() or following == "_"):
            indirect, self.at = True, self.at + 1
        found = _LONG.match(self.source, self.at)
        if not found:
            raise self.fail("${ without a name")
        self.at = found.end()
        name = found[0]
        index = None
        if self.take("["):
            index = self.word("]")
            self.at += 1
        if self.take("}"):
            return Param(name, quoted, index, length=length, indirect=indirect)
        op = next((op for op in _OPS if self.take(op)), "")
        if not op or length:
            raise self.fail(f"${{{name}…}} of an unknown kind")
        args = [self.inner(quoted, "/}" if op.startswith("/") else ":}" if op == ":" else "}")]
        if not self.peek("}") and not self.end:
            self.at += 1
            args.append(self.inner(quoted, "}"))
        if not self.take("}"):
            raise self.fail("${ without its }")
        return Param(name, quoted, index, op, tuple(args), indirect=indirect)

    def inner(self, quoted: bool, stop: str) -> Word:
        """A word inside ``${…}``: blanks and newlines belong to it."""
        parts: list[Part] = []
        while not self.end and self.source[self.at] not in stop:
            if self.source[self.at] == "'" and quoted and stop == "}":
                self.plain(parts)
            else:
                self.piece(parts)
        return Word(tuple(parts))
