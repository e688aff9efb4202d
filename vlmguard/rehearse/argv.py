"""A command's flags, changed for a rehearsal: the last one of a name wins, as with argparse."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Words = Sequence[str]


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


def left_out(
    given: Words,
    ran: Sequence[Words],
    harmless: Collection[str],
    notes: Words,
    reasons: Mapping[str, str] | None = None,
) -> list[str]:
    """One "--flag: reason" for each of a command's own flags that was not rehearsed as it stands.

    Args:
        given: the command's flags.
        ran: the flags of what was run here, one list a kind of run.
        harmless: names that change neither a training nor its end.
        notes: what was told of replaced flags, each beginning with its name.
        reasons: flag → why it is never rehearsed, for those that notes leave out.
    """
    there = [{name: _plain(values) for name, values in flags(argv)} for argv in ran]
    told = {note.partition(":")[0].removeprefix("--"): note.partition(": ")[2] for note in notes}
    found = []
    for name, values in dict(flags(given)).items():
        if not name or name in harmless or any(one.get(name) == _plain(values) for one in there):
            continue
        last = next((one[name] for one in there if name in one), None)
        default = "not rehearsed" if last is None else f"{' '.join(last) or 'nothing'} in its place"
        found.append(f"--{name}: {told.get(name) or (reasons or {}).get(name) or default}")
    return found


def _plain(values: Words) -> tuple[str, ...]:
    """Values that two spellings of the same have in common."""
    words = [value.lower() if value.lower() in ("true", "false") else value for value in values]
    return tuple(_number(word) for word in words or ["true"])


def _number(word: str) -> str:
    try:
        return repr(float(word))
    except ValueError:
        return word
