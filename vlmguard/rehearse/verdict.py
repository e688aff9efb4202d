"""What a pass says of a command. Never "right" where something was not looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vlmguard.rehearse.compare import LIKELY, Difference
from vlmguard.rehearse.training_rows import Window

RIGHT, CRASH, HANG, WRONG, CANNOT, STOPPED = (
    "right", "crash", "hang", "silently wrong", "cannot tell", "stopped")  # fmt: skip
MOST = 1e6
"""Of an error that is told: what is not finite has no place in JSON."""
SHARED = "the same as the framework on one rank"
PLAIN = "the same as one rank, whose loss is the plain cross-entropy"
OTHER_SCALE = "those of the cross-entropy"
SCALE = 0.02
"""How far the gradients of a right loss may be from those of its cross-entropy."""
WHOLE = 1.05
"""Beyond this nothing of an update is right."""
COARSE = 0.0125
"""Where rounding alone makes so much, no defect that was ever seen can be told from it."""
ROUNDING = 3e-4
"""The most that rounding alone was seen to make of an update, relative; some 1e-5 is usual. An
auxiliary loss of experts that checkpointing loses makes 4e-4 and up (coefficient 1e-3).
"""
ZERO0 = "DeepSpeedEngine/zero0"
"""What stands around a model whose DeepSpeed config says stage 0, or nothing of stages."""
AS_SHOWN = 3
"""The exit status of "right" where something of the command was not rehearsed as it stands."""
CODES = {RIGHT: 0, CRASH: 1, HANG: 1, WRONG: 1, STOPPED: 1, CANNOT: 2}


@dataclass(frozen=True)
class Judgement:
    """Attributes:
    kind: one of the words above.
    order: the order of rows in which it failed.
    step: the step, counted from 1; 0 before the first.
    why: in words, where it is neither right nor wrong numbers.
    rank, error, message, where: of a crash.
    sites: of a hang: for each rank (rank, phase, call, line).
    tensors: (name, relative error of its update), the worst first.
    count: how many tensors are wrong; judged: of how many.
    off: the largest error.
    odds: how often ranks meet that order, where it was forced.
    against: what it is as right as.
    """

    kind: str
    order: str = ""
    step: int = 0
    why: str = ""
    rank: int = -1
    error: str = ""
    message: str = ""
    where: tuple[str, ...] = ()
    sites: tuple[tuple[int, str, str, str], ...] = ()
    tensors: tuple[tuple[str, float], ...] = ()
    count: int = 0
    judged: int = 0
    off: float = 0.0
    odds: str = ""
    against: str = ""

    @property
    def code(self) -> int:
        return CODES[self.kind]

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Seen:
    """A pass that ended by itself on every rank.

    Attributes:
        steps: that ran, one number a rank; asked: that should have.
        wrapped: what stood around the model, one word a rank.
        apart: why this was not the strategy that was asked for; None if it was.
        differences: one for each window.
        towers: tower → names of its trainable parameters.
        wanted: towers in which something has to have moved.
    """

    steps: Sequence[int]
    asked: int
    wrapped: Sequence[str]
    apart: str | None
    windows: Sequence[Window]
    differences: Sequence[Difference]
    towers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    strategy: str = ""


def steps_ran(seen: Seen) -> str:
    """Every step asked for, on every rank."""
    few = min(seen.steps, default=0)
    return f"only {few} of {seen.asked} steps ran" if few < seen.asked else ""


def engaged(seen: Seen) -> str:
    """The wrapper that the command asks for, by what was asked of the group."""
    if seen.strategy == "single":
        return ""
    if seen.apart:
        return seen.apart
    words = {"ddp": "DistributedDataParallel", "zero1": "zero1", "zero2": "zero2",
             "zero3": "zero3", "fsdp2": "FSDP2"}  # fmt: skip
    word = words.get(seen.strategy, "")
    other = [found for found in seen.wrapped if word not in found and found != ZERO0]
    return f"wrapped by {other[0]}, not by {seen.strategy}" if other else ""


def unused(seen: Seen) -> bool:
    """DDP stands around the model, and whatever was reduced, ranks that train apart are wrong."""
    return seen.strategy == "ddp" and set(seen.wrapped) == {"DistributedDataParallel"}


def comparable(seen: Seen) -> str:
    """Both began alike and say numbers."""
    if len(seen.differences) != len(seen.windows):
        return "no reference to compare with"
    return next((one.fault for one in seen.differences if one.fault), "")


def moved(seen: Seen) -> str:
    """Something moved in the reference."""
    return "" if any(one.moved for one in seen.differences) else "nothing moved in the reference"


def towers_looked_at(seen: Seen) -> str:
    """A trainable part of each tower that trains and has rows moved."""
    there = {name for one in seen.differences for name in one.moved}
    for tower in sorted(seen.wanted):
        if not there.intersection(seen.towers.get(tower, ())):
            return f"nothing of the {tower} tower moved, so it was not looked at"
    return ""


def beyond_rounding(seen: Seen) -> str:
    """No update differs by more than rounding makes it; what is wrong has been told before."""
    for one in seen.differences:
        if one.rounding > COARSE:
            return (f"rounding alone changes an update by {one.rounding:.1%} here, as much as a "
                    "defect would")  # fmt: skip
        if one.worst > max(ROUNDING, LIKELY * one.rounding):
            measured = f" (here {one.rounding:.2%})" if one.rounding else ""
            return (f"an update differs by {one.worst:.2%}: too much for rounding{measured}, too "
                    "little for a defect")  # fmt: skip
    return ""


Safeguard = Callable[[Seen], str]
SAFEGUARDS: tuple[Safeguard, ...] = (steps_ran, engaged, comparable, moved, towers_looked_at,
                                     beyond_rounding)  # fmt: skip
"""Each gives a reason why nothing can be said, or ""."""


def judged(seen: Seen, safeguards: Sequence[Safeguard] | None = None) -> Judgement:
    """Right, silently wrong, or cannot tell.

    Wrong numbers are told whatever a later safeguard would say: only "right" needs them all.
    """
    for check in safeguards if safeguards is not None else SAFEGUARDS:
        reason = check(seen)
        if reason and check is not steps_ran and (found := wrong(seen)):
            return replace(found, why="; ".join(filter(None, (found.why, _more(check, reason)))))
        if reason:
            return Judgement(CANNOT, why=reason)
    if found := wrong(seen):
        return found
    last = max((one.worst for one in seen.differences), default=0.0)
    count = max((len(one.moved) for one in seen.differences), default=0)
    return Judgement(RIGHT, off=last, judged=count)


def _more(check: Safeguard, reason: str) -> str:
    """What explains an update that is wrong."""
    return reason if check in (engaged, comparable) else ""


def balanced(found: Judgement, unbalanced: str) -> Judgement:
    """Right only if the ledger balances too: the reference shares the framework with the run, so
    an error that both have is seen there alone. What is wrong is told in its words, too."""
    if found.kind not in (RIGHT, WRONG) or not unbalanced or unbalanced in found.why:
        return found
    return replace(found, kind=WRONG, why="; ".join(filter(None, (found.why, unbalanced))))


def scaled(found: Judgement, plain: float | None) -> Judgement:
    """Right only if the reference itself has the scale of a loss that is no framework's.

    plain: the first step's gradient as a multiple of its cross-entropy's; None where that is not
        its objective.
    """
    if found.kind != RIGHT:
        return found
    if plain is None:
        return replace(found, against=SHARED)
    if abs(plain - 1) > SCALE:
        why = (f"its gradients are {plain:.2f} times {OTHER_SCALE} of its tokens, on "
               "one rank, too: the framework, or an own loss, scales it wrongly")  # fmt: skip
        return Judgement(WRONG, why=why, judged=found.judged, off=abs(plain - 1))
    return replace(found, against=PLAIN)


def decayed(found: Judgement, seen: Seen) -> Judgement:
    """Not right where weight decay, which is left out here, moves a tower that has no gradient:
    under ZeRO it does, in plain torch it does not."""
    if found.kind != RIGHT or not seen.strategy.startswith("zero"):
        return found
    there = {name for one in seen.differences for name in one.moved}
    still = [tower for tower, names in seen.towers.items() if names and there.isdisjoint(names)]
    if not still:
        return found
    why = f"nothing of the {still[0]} tower has a gradient, and ZeRO's weight decay moves it"
    return Judgement(CANNOT, why=why)


def share(error: float) -> str:
    """How far an update is off, in words: once nothing of it is right, how much says no more than
    which batches two ranks happened to see."""
    return f"{error:.0%}" if error <= WHOLE else "more than 100%"


def wrong(seen: Seen) -> Judgement | None:
    """The first window whose numbers are wrong; None if there is none."""
    for window, one in zip(seen.windows, seen.differences, strict=False):
        parted, name = min(one.drift[0], MOST), one.drift[1]
        why = f"the ranks' weights drift apart, by {share(parted)}" if parted > one.bound else ""
        if one.wrong or why:
            worst = tuple((name, min(error, MOST)) for name, error in one.errors.items())[:5]
            worst = worst if one.wrong else ((name, parted),)  # only other ranks are wrong
            return Judgement(WRONG, window.order, window.last, why, tensors=worst, off=worst[0][1],
                             count=max(1, len(one.wrong)), judged=len(one.errors))  # fmt: skip
    return None


def overall(off: Judgement, on: Judgement) -> Judgement:
    """What the command does: without the guard, or, where only the guard fails it, with it."""
    if off.kind == RIGHT and on.kind != RIGHT:
        return on
    return off


def lowered(answer: dict[str, Any], left_out: Sequence[str]) -> dict[str, Any]:
    """An answer beside what was not rehearsed as it stands: "right" is right as far as shown."""
    answer = {**answer, "left_out": [*answer.get("left_out", ()), *left_out]}
    if answer["verdict"] == RIGHT and answer["left_out"] and answer["exit"] == 0:
        answer["exit"] = AS_SHOWN
    return answer


def beside(answer: dict[str, Any], errors: Sequence[str], open_: Sequence[str]) -> dict[str, Any]:
    """An answer beside what `check` found: nothing is right under an error that is known.

    Args:
        errors: what `check` says will go wrong; open_: what it warns of, or could not look at.
    """
    if answer["verdict"] == RIGHT and errors:
        why = f"what was run here was right, and check finds: {'; '.join(errors)}"
        return {**answer, "verdict": CANNOT, "exit": CODES[CANNOT], "why": why}
    return lowered(answer, [f"check: {what}" for what in open_])
