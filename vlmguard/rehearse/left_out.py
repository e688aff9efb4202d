"""Which of a command's own flags were not rehearsed as they stand, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vlmguard.rehearse.argv import flags

Words = Sequence[str]


def of(given: Words, ran: Sequence[Words], harmless: Collection[str], notes: Words) -> list[str]:
    """One "--flag: reason" for each flag that was in no run as it was given.

    Args:
        given: the command's flags.
        ran: the flags of what was run here, one list a kind of run.
        harmless: names that change neither a training nor its end.
        notes: what was told of replaced flags, each beginning with its name.
    """
    there = [{name: _plain(values) for name, values in flags(argv)} for argv in ran]
    told = {note.partition(":")[0].removeprefix("--"): note.partition(": ")[2] for note in notes}
    found = []
    for name, values in dict(flags(given)).items():
        if not name or name in harmless or any(one.get(name) == _plain(values) for one in there):
            continue
        last = next((one[name] for one in there if name in one), None)
        default = "left out" if last is None else f"{' '.join(last) or 'nothing'} in its place"
        found.append(f"--{name}: {told.get(name) or default}")
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
