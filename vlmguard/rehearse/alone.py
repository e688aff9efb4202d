"""One process that believes it is a rank of the real world size, with the command's own optimizer
and dtype: asked when two ranks were right, for what depends on one of the three. Where they failed
at a step, it is asked for what fails before any.

All ranks get the same rows here, since peers are taken to hold what this rank holds: that ranks
meet different ones is what the two ranks looked at. Its numbers mean nothing and are not compared.
What one rank cannot stand for is said (`Own.unseen`, `Own.why`), never judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlmguard.ranks import RankEnvironment, Result
from vlmguard.ranks.outcome import Site, parting, sites
from vlmguard.rehearse import training_rows, verdict
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal, seen_of
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.verdict import CANNOT, CRASH, HANG, RIGHT, Judgement

RANKS = (0, 1)
"""The last one's parts are padding under ZeRO-3, and say nothing."""
NODE = 8
STEPS, FEW = 2, 4
"""Steps; one where more micro-batches than that belong to a step."""
MOST_ROWS = 4096
"""Rows that one look takes at most: all of them go through the framework's preprocessing."""
LABELS = "its loss pairs a row with another row's completion, and here all ranks have the same rows"
GENERATED = "whether all ranks make the same calls: each may generate another text"


@dataclass(frozen=True)
class Own:
    """The command with its own numbers.

    Attributes:
        commands: as it is run here; None where it cannot be, and ``why``.
        request: with its own accumulation; steps: how many.
    """

    request: Request
    commands: Commands | None = None
    steps: int = 0
    why: str = ""

    @property
    def words(self) -> str:
        many = f"at {self.request.world} ranks, " if self.request.world > 1 else ""
        return f"{many}with its own optimizer and dtype"

    @property
    def unseen(self) -> tuple[str, ...]:
        """What one rank cannot show, in words."""
        made = self.commands.unseen if self.commands else ()
        return (*made, *([GENERATED] if self.generates and self.request.world > 1 else []))

    @property
    def generates(self) -> bool:
        return self.request.generates or self.request.row == "prompt"


def own(hooks: Any, request: Request, made: Any, cells: Sequence[Any]) -> Own | None:
    """The command with its own numbers; None where the plug-in does not know how.

    cells: of the loader's order.
    """
    if not hasattr(hooks, "own"):
        return None
    request = replace(request, accumulation=request.own_accumulation or request.accumulation)
    if request.row == "label" and request.world > 1:
        return Own(request, why=LABELS)
    steps = STEPS if request.accumulation <= FEW else 1
    room = max(1, MOST_ROWS // (request.world * request.batch))
    numbers = range(min(steps * request.accumulation, room))  # with fewer, it reads them again
    same = [[cells[number % len(cells)][0]] * request.world for number in numbers]
    order = training_rows.alone(same) if request.blocks else training_rows.dealt(same)
    file = training_rows.write(Path(request.scratch) / "rows-own.jsonl", order)
    commands = hooks.own(request, made, file, steps)
    if isinstance(commands, str):
        return Own(request, why=commands)
    return Own(request, commands, steps)


def look(passes: Rehearsal, own: Own, guard: bool) -> Judgement:
    """Right, a crash, a hang, or "cannot tell" with what kept us from looking."""
    if own.commands is None:
        return Judgement(CANNOT, why=own.why)
    found = _looked(passes, own, own.commands, guard)
    passes.tell("judged", {"pass": own.words, "kind": found.kind,
                           "seconds": passes.seconds.get("alone", 0.0)})  # fmt: skip
    return found


def before(passes: Rehearsal, own: Own) -> Judgement | None:
    """How it fails before its first step, by rank 0 alone; None where it gets that far."""
    if own.commands is None:
        return None
    _, failed = passes.as_rank(_seat(own.request, 0), own.commands, guard=False)
    early = failed is not None and failed.kind == CRASH and not failed.step
    passes.tell("judged", {"pass": own.words, "kind": CRASH if early else "begins",
                           "seconds": passes.seconds.get("alone", 0.0)})  # fmt: skip
    return _said(failed, 0, own.request) if failed is not None and early else None


def _looked(passes: Rehearsal, own: Own, commands: Commands, guard: bool) -> Judgement:
    request = own.request
    results: list[Result] = []
    for rank in RANKS[: request.world]:
        result, failed = passes.as_rank(_seat(request, rank), commands, guard)
        if failed is not None:
            return _said(failed, rank, request)
        seen = seen_of(result, own.steps, request.strategy)
        if why := verdict.steps_ran(seen) or verdict.engaged(seen):
            return Judgement(CANNOT, why=why)
        results.append(result)
    return Judgement(RIGHT) if own.generates else _compared(results, request)


def _seat(request: Request, rank: int) -> RankEnvironment | None:
    if request.strategy == "single":
        return None
    local = min(request.local or NODE, request.world)
    return RankEnvironment(rank, request.world, local, Path(request.scratch) / "tape")


def _said(failed: Judgement, rank: int, request: Request) -> Judgement:
    if failed.kind == CRASH:
        where = f"rank {rank} of {request.world}, " if request.world > 1 else ""
        return replace(failed, why=f"{where}with its own optimizer and dtype")
    return failed


def _compared(results: Sequence[Result], request: Request) -> Judgement:
    """Whether both ranks asked the same of their peers, to the end."""
    calls = [result.calls[0] for result in results]
    if len(calls) < 2:
        return Judgement(RIGHT)
    where = parting(calls) or _shorter(calls)
    if where is None:
        return Judgement(RIGHT)
    told = tuple((s.rank, s.phase, s.call, s.site) for s in map(_ended, sites(calls, where)))
    return Judgement(HANG, why=f"ranks of {request.world} do not ask for the same", sites=told)


def _shorter(calls: Sequence[Any]) -> tuple[int, int] | None:
    """(group, number) of the first call that one rank alone makes: both have come to their ends.

    A group that one of them never speaks in is not its own.
    """
    logs = [[call for call in log if call.compared] for log in calls]
    for group in sorted({call.group for call in logs[0]} & {call.group for call in logs[1]}):
        counts = [sum(call.group == group for call in log) for log in logs]
        if counts[0] != counts[1]:
            return group, min(counts)
    return None


def _ended(site: Site) -> Site:
    return replace(site, site="ended") if site.call == "none" else site
