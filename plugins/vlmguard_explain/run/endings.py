"""What launchers, schedulers, shells, containers and MPI say of how the processes that they started
ended, and who ended first. The words stand in ``tables/run.toml`` under ``launcher``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from vlmguard_explain.lazy import lazy, patterns, words
from vlmguard_explain.lines.lines import Line, Time, clock

_P, _T = patterns("run.launcher"), words("run.launcher")
KILLED = (-9, 137)  # SIGKILL, as torchrun and as a shell report it
_OF = {  # exit codes, or minus a signal's number
    "VG532": (-9, 137),
    "VG558": (-11, 139, -8, 136, -4, 132),
    "VG543": (-7, 135),
    "VG569": (-1, -2, 129, 130, -15, 143),
}
BY_EXIT = {code: known for known, codes in _OF.items() for code in codes}
LONG = 3000  # characters: no such line is longer


@dataclass(frozen=True)
class Exit:
    """How a process ended: its rank (on its node) where told, its code, whether it was first."""

    line: Line
    code: int
    rank: int | None = None
    time: Time | None = None
    first: bool = False
    local: int | None = None


def exits(lines: Iterable[Line]) -> list[Exit]:
    """Every process that is said to have failed, in order."""
    found: list[Exit] = []
    tasks: dict[int, str] = {}  # srun's: place in `found` → what srun says
    root = cancelled = nodes = False
    rank: int | None = None
    time: Time | None = None
    cut = last = None
    for line in lines:
        text = line.text
        if not text.strip() or len(text) > LONG:
            continue
        last = line
        nodes = nodes or any(word in text for word in _T.starters)
        cancelled = cancelled or any(words in text for words in _T.ending)
        root = _T.root in text or (root and not text.startswith("===="))
        cut = line if text.startswith(_T.cut) else cut
        if match := _P.time.match(text):
            time = clock(match[1], match[2], match[3])
        elif match := _P.who.match(text):
            rank = int(match[match.lastindex or 1])
        elif (match := _P.code.match(text)) and not (match[1] and rank is None):
            if int(match[2]):
                found.append(Exit(line, int(match[2]), rank, time or line.time, root))
            rank = time = None
        elif (one := _by_rules(text)) is not None:
            code, said = one
            word = (said.get("word") or "").lower()
            if cancelled and code == -9 and word and word != "out of memory":
                code = -15
            if said.get("task"):
                tasks[len(found)] = word
            told = said.get("rank") or said.get("task") or ""
            local = int(said["local"]) if said.get("local") else None
            own = int(told) if told.isdecimal() else None
            found.append(Exit(line, code, own, line.time, local=local))
    if last is not None and not found and last.text.rstrip().endswith(_T.typed):
        return [Exit(last, -2, None, last.time)]
    if cut is not None and not found:
        return [Exit(cut, 1, None, cut.time)]
    return _of_tasks(found, tasks, nodes)


def _of_tasks(found: list[Exit], tasks: dict[int, str], nodes: bool) -> list[Exit]:
    """The same, where srun's tasks are nodes, no ranks, or somebody outside ended all of them."""
    if nodes or not any(found[n].rank for n in tasks):  # the only task may be a launcher
        found = [replace(e, rank=None) if n in tasks else e for n, e in enumerate(found)]
    killed = [n for n, word in tasks.items() if word == "killed"]
    if len(killed) > 1:  # too little memory ends only one
        found = [replace(e, code=-15) if n in killed else e for n, e in enumerate(found)]
    return found


@functools.cache
def _rules() -> list[tuple[tuple[str, ...], list[re.Pattern[str]], int]]:
    return [
        (r.get("text", ()), [lazy(p) for p in r.get("patterns", ())], r.get("code", 1))
        for r in _T.rule
    ]


def _by_rules(text: str) -> tuple[int, dict[str, Any]] | None:
    """The exit code, or minus a signal's number, and the other groups of the rule that fits."""
    for texts, tries, code in _rules():
        if texts and not any(one in text for one in texts):
            continue
        if not tries:
            return code, {}
        match = next((m for one in tries if (m := one.search(text)) is not None), None)
        if match is None:
            continue
        said = match.groupdict()
        if said.get("signal"):
            return -int(said["signal"]), said
        if said.get("word"):
            return _T.signals.get(said["word"].lower(), -4), said
        if not said.get("code"):
            return code, said
        return (int(said["code"]), said) if int(said["code"]) else None
    return None


def killed(text: str) -> bool:
    """Whether a shell says that a signal ended what it ran."""
    return any(one.search(text) for one in _rules()[-1][1])


def first(found: Iterable[Exit]) -> Exit | None:
    """The first observed failure; of several nodes' launchers the earliest in time."""
    roots = [e for e in found if e.first and e.rank is not None]
    timed = [e for e in roots if e.time is not None]
    return min(timed, key=lambda e: e.time or ()) if timed else roots[0] if roots else None


def crashed(ended: Exit | None) -> bool:
    """Whether a signal ended it that says of itself why."""
    return ended is not None and BY_EXIT.get(ended.code, "VG569") != "VG569"
