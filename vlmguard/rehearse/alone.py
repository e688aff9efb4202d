"""One process that believes it is a rank of the real world size, with the command's own optimizer
and dtype: asked when two ranks were right, for what depends on one of the three.

All ranks get the same rows here, since peers are taken to hold what this rank holds: that ranks
meet different ones is what the two ranks looked at. Its numbers mean nothing and are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlmguard.ranks import Result, Seat, not_engaged
from vlmguard.ranks.outcome import parting, sites
from vlmguard.rehearse import rows
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.verdict import CANNOT, CRASH, HANG, RIGHT, Judgement

RANKS = (0, 1)
"""The last one's parts are padding under ZeRO-3, and say nothing."""
NODE = 8
STEPS, FEW = 2, 4
"""Steps; one where more micro-batches than that belong to a step."""
MOST_ROWS = 4096
"""Rows that one look takes at most: all of them go through the framework's preprocessing."""


@dataclass(frozen=True)
class Own:
    """The command with its own numbers.

    Attributes:
        commands: as it is run here; request: with its own accumulation; steps: how many.
    """

    commands: Commands
    request: Request
    steps: int

    @property
    def words(self) -> str:
        many = f"at {self.request.world} ranks, " if self.request.world > 1 else ""
        return f"{many}with its own optimizer and dtype"


def own(hooks: Any, request: Request, made: Any, cells: Sequence[Any]) -> Own | None:
    """The command with its own numbers; None where the plug-in does not know how, and for KTO,
    which sets a row beside another one's completion: here all ranks' rows are alike.

    request: with the accumulation that the command asks for. cells: of the loader's order.
    """
    if not hasattr(hooks, "own") or request.row == "label":
        return None
    steps = STEPS if request.accumulation <= FEW else 1
    room = max(1, MOST_ROWS // (request.world * request.batch))
    numbers = range(min(steps * request.accumulation, room))  # fewer: the Trainer begins again
    same = [[cells[number % len(cells)][0]] * request.world for number in numbers]
    order = rows.alone(same) if request.blocks else rows.dealt(same)
    file = rows.write(Path(request.scratch) / "rows-own.jsonl", order)
    commands = hooks.own(request, made, file, steps)
    return Own(commands, request, steps) if commands else None


def look(passes: Rehearsal, own: Own, guard: bool) -> Judgement:
    """Right, a crash, a hang, or "cannot tell" with what kept us from looking."""
    found = _looked(passes, own, guard)
    passes.tell("judged", {"pass": own.words, "kind": found.kind,
                           "seconds": passes.seconds.get("alone", 0.0)})  # fmt: skip
    return found


def _looked(passes: Rehearsal, own: Own, guard: bool) -> Judgement:
    request = own.request
    results: list[Result] = []
    for rank in RANKS[: request.world]:
        result, failed = passes.as_rank(_seat(request, rank), own.commands, guard)
        if failed is not None:
            return _said(failed, rank, request)
        told = result.outcomes[0].value
        if told["steps"] < own.steps:
            return Judgement(CANNOT, why=f"only {told['steps']} of {own.steps} steps ran")
        apart = not_engaged(request.strategy, result.calls, int(told["trainable"]))
        if request.strategy != "single" and apart:
            return Judgement(CANNOT, why=apart)
        results.append(result)
    return _compared(results, request)


def _seat(request: Request, rank: int) -> Seat | None:
    if request.strategy == "single":
        return None
    local = min(request.local or NODE, request.world)
    return Seat(rank, request.world, local, Path(request.scratch) / "tape")


def _said(failed: Judgement, rank: int, request: Request) -> Judgement:
    if failed.kind == CRASH:
        where = f"rank {rank} of {request.world}, " if request.world > 1 else ""
        return replace(failed, why=f"{where}with its own optimizer and dtype")
    return failed


def _compared(results: Sequence[Result], request: Request) -> Judgement:
    """Whether both ranks asked the same of their peers; what ranks generate differs by right."""
    calls = [result.calls[0] for result in results]
    where = None if request.generates or len(calls) < 2 else parting(calls)
    if where is None:
        return Judgement(RIGHT)
    told = tuple((s.rank, s.phase, s.call, s.site) for s in sites(calls, where))
    return Judgement(HANG, why=f"ranks of {request.world} do not ask for the same", sites=told)
