"""How a run becomes one word: made-up ends of ranks, no run."""

from __future__ import annotations

import numpy as np
import pytest

from tools.matrix import judge
from vlmguard.ranks import Call, Outcome, Result, Site

BEFORE = {"tower": np.zeros(4), "words": np.ones(4), "idle": np.ones(4)}
AFTER = {"tower": np.full(4, 0.1), "words": np.full(4, 1.1), "idle": np.ones(4)}
REFERENCE = {
    "before": BEFORE, "after": AFTER, "evaluated": [[6.0], [6.0]], "tokens": [[[1]], [[2]]],
    "exact": 1e-3, "near": 1e-4, "noise": (),
}  # fmt: skip
REDUCED = [Call("allreduce", "", 99, 0, "backward", "accelerate/accelerator.py:1 in backward")]
STOPPED = {"code": "VG106", "level": "error", "outcome": "stopped", "why": "no blank for it"}
NOTED = {"code": "VG106", "level": "note", "outcome": "noted"}
FAULT = {"code": "VG902", "level": "warning", "outcome": "warned"}


def ended(weights=None, evaluated=(6.0,), tokens=1, calls=REDUCED, digest="d"):
    """Two ranks that returned; the second one as given."""

    def value(rank, weights, evaluated, tokens):
        return Outcome(rank, "returned", {
            "weights": {**AFTER, **(weights or {})}, "evaluated": list(evaluated),
            "tokens": [[tokens]], "digest": digest, "trainable": 99,
        })  # fmt: skip

    ranks = [value(0, None, (6.0,), 1), value(1, weights, evaluated, 2 if tokens == 1 else tokens)]
    return Result("ok", ranks, [calls, calls], (), 1.0)


def crashed(message="boom"):
    ranks = [Outcome(0, "raised", error="RuntimeError", message=message), Outcome(1, "stopped")]
    return Result("crash", ranks, [[], []], (), 1.0)


def hung():
    sites = (Site(0, "allreduce", "backward", ""), Site(1, "none", "", "ended"))
    return Result("mismatch", [Outcome(0, "stopped"), Outcome(1, "stopped")], [[], []], sites, 9.0)


def off(result):
    return judge.off(result, REFERENCE, "ddp")["verdict"]


def on(result, before, said=()):
    told = judge.on(result, REFERENCE, "ddp", before, said)
    return told["verdict"], told["message"]


def test_the_oracles_updates_are_right():
    assert off(ended()) == "right"


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": {"tower": np.full(4, 0.1002)}},  # 0.2 % off, on one rank alone
        {"weights": {"tower": np.zeros(4)}},
        {"weights": {"idle": np.full(4, 1.01)}},  # moves, and must not
        {"weights": {"words": np.array([1.1, 1.1, 1.1, np.nan])}},
        {"evaluated": (6.001,)},
        {"evaluated": ()},
        {"tokens": 7},
    ],
)
def test_what_differs_from_the_oracle_is_wrong(wrong):
    assert off(ended(**wrong)) == "wrong"


def test_an_oracle_in_which_nothing_moves_proves_nothing():
    still = {**REFERENCE, "after": BEFORE}
    assert judge.off(ended(weights=BEFORE), still, "ddp")["verdict"] == "wrong"


def test_a_run_that_was_not_distributed_proves_nothing():
    assert off(ended(calls=[])) == "unmeasurable"
    assert on(ended(calls=[]), {"verdict": "hang"})[0] == "unmeasurable"


def test_ends_without_weights():
    assert off(crashed()) == "crash"
    told = judge.off(hung(), REFERENCE, "ddp")
    assert told["verdict"] == "hang"
    assert told["message"] == "rank 0: backward: allreduce; rank 1: : none"


def test_a_healthy_run_must_stay_so_to_the_bit():
    healthy = {"verdict": "right", "digest": "d-d"}
    assert on(ended(), healthy)[0] == "right"
    assert on(ended(digest="e"), healthy) == ("broken", "right, but not bitwise as without")
    verdict, message = on(crashed(), healthy, [STOPPED])
    assert verdict == "broken"
    assert "VG106: no blank for it" in message
    assert on(hung(), healthy)[0] == "broken"


def test_a_broken_run_is_mended_stopped_left_or_broken():
    broken = {"verdict": "hang"}
    assert on(ended(), broken)[0] == "right"
    assert on(ended(), broken, [FAULT])[0] == "broken"
    assert on(crashed(), broken, [STOPPED]) == ("stopped", "VG106: no blank for it")
    assert on(ended(weights={"tower": np.zeros(4)}), broken, [STOPPED])[0] == "broken"
    assert on(hung(), broken, [NOTED])[0] == "unjudged"
    assert on(hung(), broken, [{**NOTED, "outcome": "set"}])[0] == "broken"
    assert on(hung(), broken)[0] == "broken"
