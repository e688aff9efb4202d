"""A command's flags, changed for a rehearsal: the last one of a name wins, as with argparse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


def flags(argv: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(name without dashes, values) one by one; words in front of the first have the name ""."""
    found: list[tuple[str, list[str]]] = []
    for word in argv:
        if re.match(r"--[A-Za-z]", word):
            name, equals, value = word[2:].partition("=")
            found.append((name.replace("-", "_"), [value] if equals else []))
        elif found:
            found[-1][1].append(word)
        else:
            found.append(("", [word]))
    return found


@dataclass
class Argv:
    """Attributes:
    words: the flags as they stand.
    known: names that this release takes; others are not set. Empty: all are.
    notes: what was replaced, for the user.
    """

    words: list[str]
    known: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)

    def copy(self) -> Argv:
        return Argv(list(self.words), self.known, list(self.notes))

    def values(self, *names: str) -> list[str] | None:
        """The last occurrence's values; None where it was not given."""
        found = None
        for name, values in flags(self.words):
            if name in names:
                found = values
        return found

    def get(self, *names: str) -> str | None:
        """Its first value; "" for a flag without one."""
        found = self.values(*names)
        return None if found is None else (found[0] if found else "")

    def true(self, name: str) -> bool:
        """Whether a switch is on."""
        return (self.get(name) or "").lower() in ("true", "1", "yes", "t", "y") or (
            self.values(name) == []
        )

    def set(self, name: str, *values: object) -> None:
        """Give it these values alone."""
        if self.known and name not in self.known:
            return
        self.drop(name)
        self.words += [f"--{name}", *map(str, values)]

    def drop(self, *names: str) -> None:
        """Take it out, wherever it stands."""
        kept: list[str] = []
        for name, values in flags(self.words):
            if name not in names:
                kept += ([f"--{name}"] if name else []) + values
        self.words = kept

    def replace(self, names: Iterable[str], why: str) -> None:
        """Drop what was given, and say why."""
        given = [name for name in names if self.values(name) is not None]
        self.drop(*given)
        if given and why:
            self.notes.append(f"--{given[0]}: {why}")
