"""NCCL's watchdog and gloo's time-outs, rank beside rank: who waits in what, who never came."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vlmguard.explain.lines import Line

_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(\d{1,12}), OpType=(\w{1,40})(?:, "
    r"NumelIn=(\d{1,15}))?(?:, NumelOut=(\d{1,15}))?"
    r"[^)]{0,200}\)"
)
_RANK = re.compile(r"\bRank (\d{1,6})\]")
_GROUP = re.compile(r"\[PG (?:ID )?(\w{1,12})\b")
_LAST = re.compile(
    r"last enqueued (?:NCCL )?work: (-?\d{1,12}), last completed (?:NCCL )?work: (-?\d{1,12})"
)


@dataclass(frozen=True)
class Wait:
    """One rank's wait: the number of the collective, its kind, the elements that it sends."""

    line: Line
    rank: int | None
    seq: int
    op: str
    numel: int
    group: str = ""
    enqueued: int | None = None
    completed: int | None = None


@dataclass(frozen=True)
class Table:
    """The ranks side by side.

    Attributes:
        waits: one a rank, the first of each.
        late: ranks that never came to the collective in which the others wait.
        odd: ranks that wait in another collective than most.
        same: whether all ranks that tell wait in the same one.
        size: how many ranks share it, by what one sends and gets.
    """

    waits: tuple[Wait, ...]
    late: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    same: bool = False
    size: int | None = None

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

    @property
    def parted(self) -> bool:
        """Whether ranks wait in the same place, each kind of them for something else."""
        told = [wait for wait in self.waits if wait.rank is not None]
        places = {(wait.group, wait.seq) for wait in told}
        return len(places) == 1 and len({(wait.op, wait.numel) for wait in told}) > 1

    def everyone(self, world: int | None) -> bool:
        """Whether each of the run's ranks says what it waits in: none of them failed before."""
        there = {wait.rank for wait in self.waits if wait.rank is not None}
        return len(there) > 1 and len(there) == max(world or max(there) + 1, self.size or 0)


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
    status: dict[int | None, tuple[int, int]] = {}
    sizes: set[int | None] = set()
    for line in lines:
        if "WorkNCCL(" not in line.raw and "last enqueued" not in line.raw:
            continue
        rank = _rank(line)
        if match := _LAST.search(line.raw):
            status.setdefault(rank, (int(match[1]), int(match[2])))
        if match := _WORK.search(line.raw):
            group = _GROUP.search(line.raw)
            wait = Wait(
                line, rank, int(match[1]), match[2], int(match[3] or 0), group[1] if group else ""
            )
            if rank not in waits or rank is None:
                waits[rank] = wait
                sizes.add(_size(match) if wait.group in ("", "0") else None)
    if not waits:
        return None
    told = [_with(wait, status.get(rank)) for rank, wait in waits.items()]
    size = sizes.pop() if len(sizes) == 1 else None
    ordered = sorted(told, key=lambda w: (w.rank is None, w.rank or 0))
    return replace(_judged(ordered, status, world or size), size=size)


def _size(match: re.Match[str]) -> int | None:
    """How many ranks a gathering or scattering collective has: one's share in all of it."""
    one, whole = sorted((int(match[3] or 0), int(match[4] or 0)))
    shares = "GATHER" in match[2] or "SCATTER" in match[2]
    return whole // one if shares and one > 0 and whole % one == 0 and whole > one else None


def _rank(line: Line) -> int | None:
    match = _RANK.search(line.raw)
    return int(match[1]) if match else line.rank


def _with(wait: Wait, status: tuple[int, int] | None) -> Wait:
    enqueued, completed = status or (None, None)
    return Wait(
        wait.line, wait.rank, wait.seq, wait.op, wait.numel, wait.group, enqueued, completed
    )


def _judged(
    waits: list[Wait], status: dict[int | None, tuple[int, int]], world: int | None
) -> Table:
    kinds = Counter((w.seq, w.op, w.numel) for w in waits)
    common, count = kinds.most_common(1)[0]
    odd: tuple[int, ...] = ()
    if len(kinds) > 1:
        rare = [w.rank for w in waits if (w.seq, w.op, w.numel) != common and w.rank is not None]
        odd = tuple(rare)
        if count == 1 or count * 2 == len(waits):  # no majority: the one that is behind
            least = min(w.seq for w in waits)
            behind = [w.rank for w in waits if w.seq == least and w.rank is not None]
            odd = tuple(behind) if len(behind) < len(waits) else ()
    heard = {w.rank for w in waits if w.rank is not None}
    if not world and len(heard) > 1:
        world = max(heard) + 1  # at least
    silent = world - len(heard) if world and heard and max(heard) < world else 0
    late: tuple[int, ...] = ()
    if world and 0 < silent < max(len(heard), 2):  # else the log does not hold all ranks
        late = tuple(sorted(set(range(world)) - heard))
    behind = [r for r, (enqueued, _) in status.items() if r is not None and enqueued < common[0]]
    return Table(tuple(waits), late or tuple(sorted(behind)), odd, len(kinds) == 1)
