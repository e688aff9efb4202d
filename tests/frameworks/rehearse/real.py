"""What two real gloo ranks do with a command, by the test kit's own oracle."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.frameworks.rehearse.known import CRASH, HANG, RIGHT, WRONG
from tests.frameworks.swift import campaign
from tests.frameworks.swift.classes import Run
from tests.kit.oracle import EPS, TOLERANCE
from tests.kit.standins.vlmguard_capture import Rank

QUIET = 12.0
"""Seconds without a line, of those that the ranks had a processor for or waited: their imports
are over before they begin."""
LONGER = 45.0
_ERROR = re.compile(r"^(?:\[rank\d+\]: *)?([\w.]*(?:Error|Exception)\b.*)", re.M)
_PARTED = ("gloo/transport", "mismatch between collectives", "Received data size doesn't match",
           "op.preamble", "Connection closed by peer", "Connection reset by peer")  # fmt: skip
"""What gloo or torch's comparison of collectives says where ranks ask for different things: with
NCCL they would wait for each other."""


def ranks(run: Run, rehearsed: str) -> dict[str, Any]:
    """rehearsed: what was said of it; a hang that nobody foresaw gets more time to end."""
    begun = time.monotonic()
    detail = rehearsed == HANG and "--deepspeed" in run.flags
    done = campaign.start(run, run.flags, False, detail=detail, quiet=QUIET)
    if done.hung and rehearsed != HANG:
        done = campaign.start(run, run.flags, False, quiet=LONGER)
    word, evidence = campaign.judged(run, done)
    word = {"right": RIGHT, "wrong": WRONG, "hang": HANG}.get(word, word)
    if word == CRASH:
        errors = list(dict.fromkeys(_ERROR.findall(done.output)))
        own = [error for error in errors if not any(mark in error for mark in _PARTED)]
        parted = any(mark in done.output for mark in _PARTED)
        word = HANG if parted and not own else CRASH
        evidence = " | ".join(own or errors) or evidence
    if done.hung:
        evidence = "no line any more, all ranks wait"
    told: dict[str, Any] = {}
    if word == WRONG:
        reference = campaign.start(run, run.reference, False)
        close = _within_rounding(done.ranks[0], reference.ranks[0])
        verdict = campaign.compare(done.ranks, reference.ranks, world=run.world, skip=close)
        told["shares"] = [error for error, _ in verdict.worst[:5]]
        if verdict:
            word = RIGHT
            evidence += f"; {', '.join(close)} within a rounding of float32"
    told |= {"verdict": word, "why": " ".join(evidence.split())[:600]}
    return {**told, "seconds": round(time.monotonic() - begun, 1)}


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
