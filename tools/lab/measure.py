"""One case measured: run, compared, classified. Lives in the worker, which imported torch."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import Any

from tools.lab import compare, step
from tools.lab.cases import Case
from tools.lab.messages import classify, first_line
from tools.lab.models.batches import WORLD
from vlmguard.ranks import Result, not_engaged, run

LIMIT = 120.0
"""Seconds for the ranks of a case; a case takes 0.3 to 5."""
DRIFT = 1e-5


@dataclass(frozen=True)
class Verdict:
    """See the record format in `records`."""

    verdict: str
    kind: str | None = None
    message: str | None = None
    error: float | None = None
    sites: list[dict[str, Any]] | None = None
    seconds: float = 0.0


@dataclass
class Bench:
    """Measures cases, remembering what several of them share.

    engine: "gloo" or "referee".
    """

    engine: str = "gloo"
    _references: dict[Any, dict[str, Any]] = field(default_factory=dict)
    _controls: dict[Any, Verdict] = field(default_factory=dict)

    def measure(self, case: Case, seed: int) -> Verdict:
        """The case's verdict, or "unmeasurable" where the plain case of its column fails."""
        control = case.control()
        if control not in self._controls:
            self._controls[control] = self._best_of_three(control, seed)
        plain = self._controls[control]
        if plain.verdict != "ok":
            told = f"control: {plain.verdict}: {plain.message or plain.error}"
            return Verdict("unmeasurable", plain.kind, told[:200], seconds=plain.seconds)
        return plain if case == control else self._best_of_three(case, seed)

    def _best_of_three(self, case: Case, seed: int) -> Verdict:
        first = self._once(case, seed)
        if first.verdict not in ("wrong", "drift", "hang"):
            return first
        again = [self._once(case, seed + more) for more in (1, 2)]
        agreeing = [other for other in again if other.verdict == first.verdict]
        return first if agreeing else again[0]

    def _once(self, case: Case, seed: int) -> Verdict:
        result = run(functools.partial(_work, case, seed), WORLD, self.engine, LIMIT)
        seconds = round(result.seconds, 2)
        if result.verdict in ("hang", "mismatch"):
            sites = [asdict(site) for site in result.sites]
            return Verdict(result.verdict, None, None, None, sites, seconds)
        if result.verdict == "crash":
            return _crash(result, seconds)
        trainable = result.outcomes[0].value["trainable"]
        if why := not_engaged(case.strategy, result.calls, trainable):
            return Verdict("unmeasurable", "not_engaged", f"not engaged: {why}", seconds=seconds)
        return self._compared(case, seed, result, seconds)

    def _compared(self, case: Case, seed: int, result: Result, seconds: float) -> Verdict:
        reference = self._reference(case, seed)
        found = [outcome.value["weights"] for outcome in result.outcomes]
        before, after = reference["before"], reference["after"]
        apart = compare.drift(before, after, found)
        if apart > DRIFT:
            return Verdict("drift", None, None, _rounded(apart), None, seconds)
        off = compare.error(before, after, found[0])
        verdict = "ok" if off <= compare.TOLERANCE else "wrong"
        return Verdict(verdict, None, None, _rounded(off), None, seconds)

    def _reference(self, case: Case, seed: int) -> dict[str, Any]:
        key = (case.reference(), seed)
        if key not in self._references:
            result = run(lambda rank: step.single(case, seed), 1, "none", LIMIT)
            ended = result.outcomes[0]
            if ended.state != "returned":
                raise RuntimeError(f"the reference run failed: {ended.error}: {ended.message}")
            if not compare.finite(ended.value["after"]):
                raise RuntimeError("the reference run diverged: nothing can be compared with it")
            self._references[key] = ended.value
        return self._references[key]


def _work(case: Case, seed: int, rank: int) -> dict[str, Any]:
    return step.distributed(case, rank, seed)


def _crash(result: Result, seconds: float) -> Verdict:
    cause = result.cause
    assert cause is not None
    kind = classify(cause.error, cause.message)
    message = first_line(cause.error, cause.message, cause.exit_code)
    return Verdict("crash", kind, message, None, None, seconds)


def _rounded(value: float) -> float:
    """Three digits: below that, two runs of the same case may differ on another machine."""
    return float(f"{value:.2e}")
