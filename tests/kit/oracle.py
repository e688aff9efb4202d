"""Did a run learn what it should have? Compares weight *updates*, because losses and weights hide.

    verdict = compare(run, reference)      # two sequences of Rank, see standins/vlmguard_capture.py
    assert verdict, verdict                # reads like a report

A comparison that could not have failed raises `Vacuous`: it is no evidence, so it is no pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from tests.kit.standins.vlmguard_capture import Rank, Weights

TOLERANCE = 2e-3
EPS = torch.finfo(torch.float32).eps
NEGLIGIBLE = 1e-6
"""Share of the largest update below which a gradient is rounding noise (a bias that softmax
cancels), which two right runs do not share."""


class Vacuous(AssertionError):
    """The comparison proves nothing: alone, clipped, nothing moved or nothing to learn."""


@dataclass(frozen=True)
class Verdict:
    """True when right; prints the worst parameters first."""

    faults: Sequence[str] = ()
    judged: int = 0
    worst: Sequence[tuple[float, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        head = "right" if self else "WRONG"
        lines = [f"{head}: {self.judged} moved parameters compared, {len(self.faults)} faults"]
        lines += [f"  - {fault}" for fault in self.faults[:12]]
        lines += [f"  {error:9.2e}  {name}" for error, name in self.worst[:8]]
        return "\n".join(lines)


def compare(
    run: Sequence[Rank],
    reference: Sequence[Rank],
    *,
    tol: float = TOLERANCE,
    world: int = 2,
    skip: tuple[str, ...] = (),
    alone: bool = False,
) -> Verdict:
    """Every trainable parameter: ‖Δw − Δw_ref‖ ≤ tol·‖Δw_ref‖, and what moves there moves here.

    skip: ends of names of parameters whose gradient is zero but for rounding.
    alone: the reference is one process with the rows of all ranks.
    """
    for who, ranks, many in (("run", run, world), ("reference", reference, 1 if alone else world)):
        _distributed(who, ranks, many)
        _learning(who, ranks)
    faults = [*_drift("run", run), *_drift("reference", reference)]
    ours, theirs = run[0], reference[0]
    faults += _same_start(ours, theirs)
    if ours.initial.keys() != theirs.initial.keys():
        return Verdict(faults)
    expected = _updates(theirs)
    largest = max((update.norm().item() for update in expected.values()), default=0.0)
    judged, worst = 0, []
    for name, update in _updates(ours).items():
        if name.endswith(skip):
            continue
        want = expected[name]
        size, off = want.norm().item(), (update - want).norm().item()
        floor = max(NEGLIGIBLE * largest, EPS * theirs.initial[name].double().norm().item())
        if size <= floor:
            if update.norm().item() > 10 * floor:
                faults.append(f"{name} moved by {update.norm():.2e}, in the reference not at all")
            continue
        judged += 1
        worst.append((off / size, name))
        if not update.any():
            faults.append(f"{name} did not move, in the reference by {size:.2e}")
        elif not off <= tol * size:
            faults.append(f"{name}: update off by {off / size:.2%}")
    if not judged:
        raise Vacuous(f"nothing moved in the reference (largest update {largest:.1e})")
    return Verdict(faults, judged, sorted(worst, reverse=True))


def bitwise(run: Sequence[Rank], other: Sequence[Rank], *, world: int = 2) -> Verdict:
    """The same losses and the same final weights, to the last bit, on every rank."""
    for who, ranks in (("run", run), ("other", other)):
        _distributed(who, ranks, world)
        _learning(who, ranks)
        if not any(update.any() for update in _updates(ranks[0]).values()):
            raise Vacuous(f"{who}: no parameter moved")
    faults = []
    for one, two in zip(run, other, strict=True):
        if list(one.losses) != list(two.losses):
            faults.append(f"rank {one.rank}: losses {one.losses} against {two.losses}")
        if one.digests != two.digests:
            differing = _differing(one.digests, two.digests)
            faults.append(f"rank {one.rank}: {len(differing)} digests differ, {differing[:3]}")
        faults += _unequal(f"rank {one.rank}: final", one.final, two.final)
    return Verdict(faults, len(run[0].final))


def _distributed(who: str, ranks: Sequence[Rank], world: int) -> None:
    if [rank.rank for rank in ranks] != list(range(world)):
        raise Vacuous(f"{who}: captured ranks {[rank.rank for rank in ranks]}, expected {world}")
    for rank in ranks:
        if rank.world != world or (world > 1 and rank.wrapped == "none"):
            raise Vacuous(
                f"{who}: rank {rank.rank} trained alone (world {rank.world}, {rank.wrapped})"
            )


def _learning(who: str, ranks: Sequence[Rank]) -> None:
    spread = [log["reward_std"] for log in ranks[0].log if "reward_std" in log]
    if spread and not any(value > 0 for value in spread):
        raise Vacuous(f"{who}: all rewards are equal, so there is no gradient (reward_std 0)")
    if limit := ranks[0].extra.get("gradient_clipping"):
        raise Vacuous(f"{who}: DeepSpeed clips gradients at {limit}, so updates do not tell")
    if not ranks[0].losses:
        raise Vacuous(f"{who}: no step was logged")


def _updates(rank: Rank) -> dict[str, torch.Tensor]:
    return {name: rank.final[name].double() - rank.initial[name].double() for name in rank.initial}


def _drift(who: str, ranks: Sequence[Rank]) -> list[str]:
    """Ranks that no longer hold the same weights."""
    first = ranks[0].final
    return [
        fault
        for rank in ranks[1:]
        for fault in _unequal(f"{who}: ranks 0 and {rank.rank} differ in", first, rank.final)
    ]


def _same_start(ours: Rank, theirs: Rank) -> list[str]:
    return _unequal("initial weights differ:", ours.initial, theirs.initial)


def _unequal(what: str, one: Weights, two: Weights) -> list[str]:
    odd = sorted(one.keys() ^ two.keys())
    names = [name for name in one if name in two and not torch.equal(one[name], two[name])]
    return [f"{what} {name} (only in one)" for name in odd] + [f"{what} {name}" for name in names]


def _differing(one: dict[str, str], two: dict[str, str]) -> list[str]:
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
