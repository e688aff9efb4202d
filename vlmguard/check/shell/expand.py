"""Words → strings: parameters, substitutions, arithmetic, braces, splitting, file names."""

from __future__ import annotations

import glob as files
import itertools
import os
import re
from collections.abc import Callable, Iterator

from vlmguard.check.shell import arith, patterns
from vlmguard.check.shell.braces import MOST, OPEN, braces
from vlmguard.check.shell.state import LONGEST, Array, State, Trace, known, marks, scheduled
from vlmguard.check.shell.strings import (
    keys,
    part_quoted,
    replace,
    split,
    spreads,
    tilde,
    trim,
)
from vlmguard.check.shell.tree import (
    Arithmetic,
    NotUnderstood,
    Param,
    Part,
    Substitution,
    Text,
    Word,
)

Field = list[tuple[str, bool]]


class Expander:
    """Expands for one trace; ``capture`` evaluates a substitution and gives its output."""

    def __init__(self, trace: Trace, capture: Callable[[Substitution, State], str]) -> None:
        self.trace = trace
        self.capture = capture

    # whole words
    def fields(self, word: Word, state: State) -> list[str]:
        """All expansions: what a command gets as arguments."""
        found: list[str] = []
        for one in braces(word):
            for field in self._fields(one, state):
                found.extend(self._names(field, state))
            if len(found) > MOST:
                raise NotUnderstood("a word that becomes too many")
        return found

    def text(self, word: Word, state: State) -> str:
        """One string, neither split nor matched: assignments, redirections, ``case``."""
        parts = word.parts
        if parts and isinstance(parts[0], Text) and not parts[0].quoted:
            parts = (Text(tilde(parts[0].value, state), True), *parts[1:])
        return self._checked("".join(self._joined(part, state) for part in parts))

    def pattern(self, word: Word, state: State) -> str:
        """A glob: what is quoted stands for itself."""
        found = []
        for part in word.parts:
            text = self._joined(part, state)
            found.append(patterns.quote(text) if part_quoted(part) else text)
        return "".join(found)

    def regex(self, word: Word, state: State) -> str:
        found = []
        for part in word.parts:
            text = self._joined(part, state)
            found.append(re.escape(text) if part_quoted(part) else text)
        return "".join(found)

    def number(self, word: Word, state: State) -> int:
        """An arithmetic expression's value. Raises `arith.Unknown`."""
        return self._evaluated(self.text(Word(tuple(word.parts)), state), state)

    def _evaluated(self, text: str, state: State) -> int:
        try:
            return arith.evaluate(text, state)
        except arith.Unset as unset:
            raise arith.Unknown(self._scheduled(str(unset))) from None

    def _scheduled(self, name: str) -> str:
        return self.trace.unknown(f"${name}, which the scheduler sets")

    def _checked(self, text: str) -> str:
        if len(text) > LONGEST:
            raise NotUnderstood(f"a value longer than {LONGEST} characters")
        return text

    def _joined(self, part: Part, state: State) -> str:
        if isinstance(part, Text):
            return part.value
        return " ".join(self._values(part, state))

    def _fields(self, word: Word, state: State) -> Iterator[Field]:
        current: Field = []
        parts = word.parts
        if parts and isinstance(parts[0], Text) and not parts[0].quoted:
            parts = (Text(tilde(parts[0].value, state)), *parts[1:])
        for part in parts:
            if isinstance(part, Text):
                current.append((part.value, part.quoted))
                continue
            values = self._values(part, state)
            if part.quoted:
                many = isinstance(part, Param) and spreads(part)
                if many and not values:
                    continue
                for number, value in enumerate(values or [""]):
                    if number:
                        yield current
                        current = []
                    current.append((value, True))
                continue
            for number, value in enumerate(values):
                if number:
                    yield current
                    current = []
                pieces, before, behind = split(value, state.text("IFS", " \t\n"))
                if before and current:
                    yield current
                    current = []
                for position, piece in enumerate(pieces):
                    if position:
                        yield current
                        current = []
                    current.append((piece, False))
                if behind and pieces:
                    yield current
                    current = []
        yield current

    def _names(self, field: Field, state: State) -> Iterator[str]:
        """A field's text, or the files that its pattern matches."""
        text = self._checked("".join(piece for piece, _ in field))
        if not field or (not text and not any(quoted for _, quoted in field)):
            return
        bare = "".join(piece for piece, quoted in field if not quoted)
        if not re.search(r"[*?\[]", bare) or not known(text):
            yield text
            return
        pattern = "".join(files.escape(piece) if quoted else piece for piece, quoted in field)
        wide = bare.count("*") > 4 or bare.count("[") > OPEN
        if wide or state.path(pattern).startswith(("/proc", "/sys")):
            yield text
            return
        found = itertools.islice(files.iglob(pattern, root_dir=state.folder), MOST)
        matches = sorted(name for name in found if not os.path.basename(name).startswith("."))
        yield from matches or [text]

    # parts
    def _values(self, part: Part, state: State) -> list[str]:
        if isinstance(part, Param):
            return self._param(part, state)
        if isinstance(part, Arithmetic):
            try:
                return [str(self.number(part.expression, state))]
            except arith.Unknown as unknown:
                return [str(unknown)]
        if isinstance(part, Substitution):
            if part.process:
                text = self.capture(part, state)
                name = f"/dev/fd/{63 + len(state.files)}"
                state.files[name] = text if part.process == "<" else ""
                return [name]
            return [self._checked(self.capture(part, state).rstrip("\n"))]
        return [part.value]

    def _param(self, part: Param, state: State) -> list[str]:
        values = self._plain(part, state)
        if part.length:
            if values is None:
                return ["0"]
            text = "".join(values)
            return [
                str(len(values) if spreads(part) else len(text)) if known(text) else marks(text)
            ]
        if part.indirect:
            name = "".join(values or [])
            if not known(name):
                return [name]
            inner = re.fullmatch(r"(\w+)(?:\[([^\]]+)\])?", name)
            if inner is None:
                return [""]
            index = Word((Text(inner[2]),)) if inner[2] else None
            return self._param(Param(inner[1], part.quoted, index, part.op, part.args), state)
        return self._operated(part, values, state)

    def _plain(self, part: Param, state: State) -> list[str] | None:
        """The parameter's values; None where it is not set."""
        name = part.name
        if name in ("@", "*") or (name == "#"):
            if name == "#":
                return [str(len(state.arguments))]
            return self._star(part, list(state.arguments), state)
        if name.isdigit():
            number = int(name)
            if number == 0:
                return [state.name]
            return [state.arguments[number - 1]] if number <= len(state.arguments) else None
        if name == "?":
            return ["0" if state.status is None else str(state.status)]
        if name in ("$", "!"):
            return ["1"]
        if name == "-":
            return ["hB"]
        return self._variable(part, state)

    def _variable(self, part: Param, state: State) -> list[str] | None:
        value = state.get(part.name)
        if part.index is None:
            if isinstance(value, Array):
                return [value.items["0"]] if "0" in value.items else None
            if value is None and part.name in ("RANDOM", "SECONDS", "EPOCHSECONDS", "SRANDOM",
                                               "BASHPID", "PPID", "LINENO"):  # fmt: skip
                return [self.trace.unknown(f"${part.name}")]
            if value is None and not part.op and scheduled(part.name):
                return [self._scheduled(part.name)]
            return None if value is None else [value]
        array = value if isinstance(value, Array) else Array({} if value is None else {"0": value})
        index = self.text(part.index, state)
        if index in ("@", "*"):
            if part.indirect:
                raise NotUnderstood(f"${{!{part.name}[@]}}")
            values = [array.items[key] for key in keys(array)]
            return self._star(part, values, state)
        if not known(index):
            return [marks(index)]
        if not array.named:
            try:
                number = self._evaluated(index, state)
            except arith.Unknown as unknown:
                return [str(unknown)]
            ordered = keys(array)
            index = ordered[number] if -len(ordered) <= number < 0 else str(number)
        return [array.items[index]] if index in array.items else None

    def _star(self, part: Param, values: list[str], state: State) -> list[str]:
        starred = part.name == "*" or (part.index is not None and part.index.literal == "*")
        if starred and part.quoted and not part.length:
            return [state.text("IFS", " ")[:1].join(values)]
        return values

    def _operated(self, part: Param, values: list[str] | None, state: State) -> list[str]:
        op = part.op
        if op in (":-", ":=", ":?", ":+", "-", "=", "?", "+"):
            empty = values is None or (op.startswith(":") and "".join(values) == "")
            if op.endswith("+"):
                return [] if empty else [self._word(part.args[0], state)]
            if not empty:
                return values or []
            if op.endswith("?"):
                return [self.trace.unknown(f"${part.name}, which must be set")]
            text = self._word(part.args[0], state)
            if op.endswith("=") and part.index is None and part.name.isidentifier():
                state.set(part.name, text)
            return [text]
        if values is None:
            return [] if spreads(part) else ([""] if part.quoted else [])
        if not op:
            return values
        return self._cut(part, values, state)

    def _word(self, word: Word, state: State) -> str:
        return self.text(word, state)

    def _cut(self, part: Param, values: list[str], state: State) -> list[str]:
        op, args = part.op, part.args
        if op == ":":
            return self._slice(part, values, state)
        if op == "@":
            return values if self.text(args[0], state) in ("Q", "E", "P", "k", "a") else [""]
        pattern = self.pattern(args[0], state)
        if not known(pattern):
            return [v + marks(pattern) for v in values]
        if op in ("#", "##", "%", "%%"):
            return [trim(value, pattern, op) for value in values]
        if op in ("^", "^^", ",", ",,"):
            change = str.upper if op[0] == "^" else str.lower
            if len(op) == 2:
                return [change(value) for value in values]
            return [change(value[:1]) + value[1:] for value in values]
        with_ = self.text(args[1], state) if len(args) > 1 else ""
        return [self._checked(replace(value, pattern, op, with_)) for value in values]

    def _slice(self, part: Param, values: list[str], state: State) -> list[str]:
        try:
            numbers = [self.number(arg, state) for arg in part.args]
        except arith.Unknown as unknown:
            return [str(unknown)]
        many = spreads(part)
        whole: list[str] | str = values if many else "".join(values)
        if many and part.name == "@":
            whole = [state.name, *values] if numbers[0] == 0 else ["", *values]
        if not many and not known("".join(values)):
            return values
        start = numbers[0] if numbers[0] >= 0 else max(len(whole) + numbers[0], 0)
        stop = None
        if len(numbers) > 1:
            stop = start + numbers[1] if numbers[1] >= 0 else len(whole) + numbers[1]
        cut = whole[start:stop]
        return cut if isinstance(cut, list) else [cut]
