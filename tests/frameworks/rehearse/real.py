"""What two real gloo ranks do with a command, by the test kit's own oracle."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.frameworks.rehearse.known import CRASH, HANG, RIGHT, WRONG
from tests.frameworks.swift import campaign
from tests.frameworks.swift.classes import Run
from tests.kit.oracle import EPS, TOLERANCE, Vacuous
from tests.kit.runs import Outcome
from tests.kit.standins.vlmguard_capture import Rank

QUIET = 12.0
"""Seconds without a line, of those that the ranks had a processor for or waited: their imports
are over before they begin."""
LONGER = 45.0
SLOW = "0.02"
"""A fifth of what full trainings of the test kit have, a fiftieth of LoRA's."""
STOPPED = "stopped"
_ERROR = re.compile(r"^(?:\[rank\d+\]: *)?([\w.]*(?:Error|Exception)\b.*)", re.M)
_PARTED = ("gloo/transport", "mismatch between collectives", "Received data size doesn't match",
           "op.preamble", "Connection closed by peer", "Connection reset by peer")  # fmt: skip
"""What gloo or torch's comparison of collectives says where ranks ask for different things: with
NCCL they would wait for each other."""


@dataclass(frozen=True)
class Real:
    """Attributes:
    start: runs the command in real ranks: (guard, reference, detail, quiet) → what became of it.
    wrapped: part of the name of what has to stand around the model.
    zero: whether that is DeepSpeed's, whose ranks can compare their collectives before each.
    slower: the same at a lower learning rate: a wrong gradient is wrong at any rate, and roundings
        that a large rate lets grow from step to step stay small.
    """

    start: Callable[[bool, bool, bool, float | None], Outcome]
    wrapped: str = "distributeddataparallel"
    world: int = 2
    zero: bool = False
    slower: Real | None = None


def of_run(run: Run, slower: bool = False) -> Real:
    """A command of ms-swift."""
    rate = ["--learning_rate", SLOW] if slower else []

    def start(guard: bool, reference: bool, detail: bool, quiet: float | None) -> Outcome:
        flags = run.reference if reference else run.flags
        return campaign.start(run, [*flags, *rate], guard, detail, quiet)

    flags = " ".join(run.flags).replace("--fsdp", "fsdp2")
    names = ("zero1", "zero2", "zero3", "fsdp2")
    wanted = next((name for name in names if name in flags), "distributeddataparallel")
    other = None if slower or "--learning_rate" in run.flags else of_run(run, slower=True)
    return Real(start, wanted, run.world, "--deepspeed" in run.flags, other)


def ranks(real: Real, rehearsed: str, guard: bool = False) -> dict[str, Any]:
    """rehearsed: what was said of it; a hang that nobody foresaw gets more time to end."""
    begun = time.monotonic()
    done = real.start(guard, False, rehearsed == HANG and real.zero, QUIET)
    if done.hung and rehearsed != HANG:
        done = real.start(guard, False, False, LONGER)
    word, evidence, told = _judged(real, done)
    if word == WRONG and real.slower and not guard:
        other, again, _ = _judged(real.slower, real.slower.start(guard, False, False, QUIET))
        if other == RIGHT:
            evidence = f"{again} at learning rate {SLOW}; at its own: {evidence}"
            word, told = RIGHT, {}
    told |= {"verdict": word, "why": " ".join(evidence.split())[:600]}
    return {**told, "seconds": round(time.monotonic() - begun, 1)}


def _judged(real: Real, done: Outcome) -> tuple[str, str, dict[str, Any]]:
    """The word, the evidence, and shares of wrong updates."""
    if done.hung:
        return HANG, "no line any more, all ranks wait", {}
    if done.returncode:
        return (*_failed(done), {})
    wrapped = {rank.wrapped for rank in done.ranks}
    if not all(real.wrapped in name.lower() for name in wrapped):
        return "vacuous", f"wrapped by {wrapped}, not by {real.wrapped}", {}
    reference = real.start(False, True, False, None)
    if reference.returncode:
        return "no reference", " | ".join(_errors(reference.output)[-3:]), {}
    try:
        verdict = campaign.compare(done.ranks, reference.ranks, world=real.world)
    except Vacuous as vacuous:
        return "vacuous", str(vacuous), {}
    worst = f"worst {verdict.worst[0][0]:.1e} {verdict.worst[0][1]}" if verdict.worst else ""
    evidence = f"{verdict.judged} moved, {worst} {'; '.join(list(verdict.faults)[:3])}"
    if verdict:
        return RIGHT, evidence, {}
    close = _within_rounding(done.ranks[0], reference.ranks[0])
    verdict = campaign.compare(done.ranks, reference.ranks, world=real.world, skip=close)
    told = {"shares": [error for error, _ in verdict.worst[:5]]}
    if verdict:
        return RIGHT, f"{evidence}; {', '.join(close)} within a rounding of float32", told
    return WRONG, evidence, told


def _failed(done: Outcome) -> tuple[str, str]:
    stops = [found["code"] for found in done.findings if found["level"] == "error"]
    errors = _errors(done.output)
    own = [error for error in errors if not any(mark in error for mark in _PARTED)]
    if stops and not own:
        return STOPPED, stops[-1]
    parted = any(mark in done.output for mark in _PARTED)
    evidence = " | ".join(own or errors) or done.output[-300:]
    return (HANG if parted and not own else CRASH), evidence


def _errors(output: str) -> list[str]:
    return list(dict.fromkeys(_ERROR.findall(output)))


def _within_rounding(one: Rank, other: Rank) -> tuple[str, ...]:
    """Parameters whose updates differ, by more than the oracle lets pass but by less than float32
    can say of weights of this size: their updates are some dozens of roundings in all."""
    found = []
    for name, before in one.initial.items():
        off = (one.final[name].double() - other.final[name].double()).norm().item()
        if 0 < off <= EPS * before.double().norm().item():
            update = (other.final[name].double() - before.double()).norm().item()
            found += [name] if off > TOLERANCE * update else []
    return tuple(found)
