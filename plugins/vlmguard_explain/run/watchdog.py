"""NCCL's watchdog and gloo's time-outs, rank beside rank: who waits in what, who never came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line

_P = patterns("run.watchdog")


@dataclass(frozen=True)
class Wait:
    """One rank's wait: the number of the collective, its kind, the elements that it sends."""

    line: Line
    rank: int | None
    seq: int
    op: str
    numel: int
    completed: int | None = None


@dataclass(frozen=True)
class Table:
    """The ranks side by side."""

    waits: tuple[Wait, ...]  # one for each rank: its first
    late: tuple[int, ...] = ()  # ranks that never came to the collective in which the others wait
    odd: tuple[int, ...] = ()  # ranks that wait in another collective than most
    same: bool = False  # whether all that report wait in the same one

    def rows(self) -> list[str]:
        """Lines to print."""
        rows = []
        for wait in self.waits:
            who = "a rank" if wait.rank is None else f"rank {wait.rank}"
            done = f", completed {wait.completed}" if wait.completed is not None else ""
            of = f" of {wait.numel} elements" if wait.numel else ""
            rows.append(f"{who} waits in {wait.op} #{wait.seq}{of}{done}")
        if gone := self.gone:
            rows.append(f"never came: {ranks(gone)}")
        far = max((wait.seq for wait in self.waits), default=0)
        for wait in self.waits:
            if wait.rank in (*self.late, *self.odd) and wait.seq < far:
                rows.append(f"behind: rank {wait.rank}, by {far - wait.seq}")
        return rows

    @property
    def gone(self) -> tuple[int, ...]:
        """Those of the late that do not wait themselves."""
        there = {wait.rank for wait in self.waits}
        return tuple(rank for rank in self.late if rank not in there)

    def everyone(self, world: int | None) -> bool:
        """Whether each of the run's ranks says what it waits in: none of them failed before."""
        there = {wait.rank for wait in self.waits if wait.rank is not None}
        return len(there) > 1 and len(there) == (world or max(there) + 1)


def ranks(numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 2``, ``ranks 0–7``."""
    given = sorted(set(numbers))
    if len(given) == 1:
        return f"rank {given[0]}"
    if len(given) > 2 and given[-1] - given[0] == len(given) - 1:
        return f"ranks {given[0]}–{given[-1]}"
    return f"ranks {', '.join(map(str, given[:-1]))} and {given[-1]}"


def table(lines: Iterable[Line], world: int | None) -> Table | None:
    """The table, or None where no watchdog spoke."""
    waits: dict[int | None, Wait] = {}
    status: dict[int | None, tuple[int, int]] = {}  # last enqueued, last completed work
    for line in lines:
        named = _P.rank.search(line.raw)
        rank = int(named[1]) if named else line.rank
        if match := _P.last.search(line.raw):
            status.setdefault(rank, (int(match[1]), int(match[2])))
        match = _P.work.search(line.raw)
        if match and (rank not in waits or rank is None):
            waits[rank] = Wait(line, rank, int(match[1]), match[2], int(match[3] or 0))
    if not waits:
        return None
    done = {rank: completed for rank, (_, completed) in status.items()}
    ordered = sorted(waits.values(), key=lambda w: (w.rank is None, w.rank or 0))
    rows = tuple(replace(wait, completed=done.get(wait.rank)) for wait in ordered)
    late = _late(rows, {r: enqueued for r, (enqueued, _) in status.items()}, world)
    same = len({(w.seq, w.op, w.numel) for w in rows}) == 1
    return Table(rows, late, _odd(rows), same)


def _kinds(waits: Sequence[Wait]) -> list[tuple[tuple[int, str, int], int]]:
    return Counter((w.seq, w.op, w.numel) for w in waits).most_common()


def _odd(waits: Sequence[Wait]) -> tuple[int, ...]:
    """Who waits in another collective than most; without a majority, who is behind."""
    (common, count), *others = _kinds(waits)
    if not others:
        return ()
    least = min(w.seq for w in waits)
    if count == 1 or count * 2 == len(waits):
        rare = [w for w in waits if w.seq == least]
    else:
        rare = [w for w in waits if (w.seq, w.op, w.numel) != common]
    return tuple(w.rank for w in rare if w.rank is not None and len(rare) < len(waits))


def _late(
    waits: Sequence[Wait], enqueued: dict[int | None, int], world: int | None
) -> tuple[int, ...]:
    """Who says nothing, where most speak; else whose last enqueued work is an earlier one."""
    heard = {w.rank for w in waits if w.rank is not None}
    world = world or (max(heard) + 1 if len(heard) > 1 else 0)  # a lower bound
    silent = set(range(world)) - heard if heard and max(heard) < world <= 2 * len(heard) + 1 else ()
    if 0 < len(silent) < max(len(heard), 2):  # else the log lacks some ranks
        return tuple(sorted(silent))
    common = _kinds(waits)[0][0][0]
    return tuple(sorted(r for r, n in enqueued.items() if r is not None and n < common))
