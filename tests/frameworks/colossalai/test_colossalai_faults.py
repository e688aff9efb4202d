"""Each function of the adapter raises instead of working: the run goes on as if we were not there.

A healthy run stays bitwise equal. In a broken one no step may go wrong in silence: it is right, is
stopped, or fails as it would without the guard.
"""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.halves import compare
from tests.kit.adapters import functions
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
OUTSIDE = ("boost", "backward", "step", "enable_lora", "guard_booster")
"""What users and the framework call: it contains what it calls."""
NOT_HERE = {
    "apply:_option", "apply:_variant",  # TorchDDP; checkpointing
    "gemini_chunks:reorders", "translate:Scene.differs",  # two ranks
    "touched:_beside",  # releases before 0.4.3
    "blanks:_qwen_vl", "blanks:_llava", "blanks:_block",  # models of transformers
    "batches:_like",  # a batch handed over as one mapping
    "inside:_on", "inside:entries", "inside:install",  # models of transformers
    "inside:kinds", "inside:several", "inside:_path",
    "completer:Completer.blame",  # a completed batch that fails
    # Two ranks of a model that gets no blank
    "translate:Scene.text_leaves_towers", "watch:Boosted._compares", "call_count_sync:_times",
    *(f"call_count_sync:CallCountSync.{name}"
      for name in ("__init__", "compare", "_mark", "_forget")),
}  # fmt: skip

TARGETS = functions("vlmguard_colossalai", OUTSIDE)
HOOKS = [target for target in TARGETS if ":Boosted" in target or ".gemini_chunks:" in target]
RUN = {"model": "two_tower", "precision": "fp16"}
KINDS = {
    "healthy": {"steps": ["image", "image"], "guard": {"processor": "own"}, "loader": "image",
                "evaluates": "image", "env": {"VLMGUARD_DRY_STEP": "1"}},
    "frozen": {"steps": ["image"], "guard": {"freeze": ["vision"]}},
    "broken": {"steps": ["image", "text"], "guard": {"processor": "own"}},
    "failing": {"steps": ["image", "text"], "env": {"VLMGUARD_RULES": "VG2=off,VG3=off"}},
}  # fmt: skip
PLAIN = [
    *({**RUN, **wish, "guard": None, "env": {}, "name": kind} for kind, wish in KINDS.items()),
    {**RUN, "name": "reference", "steps": ["image", "text"], "oracle": True},
    {**RUN, "name": "vision-frozen", "steps": ["image"], "frozen": ["vision"]},
]


def name_of(kind: str, target: str) -> str:
    return f"{kind}-{target.removeprefix('vlmguard_colossalai').replace(':', '.').strip('.')}"


@functools.cache
def plain(world=1):
    return launch.run(PLAIN if world == 1 else PLAIN[:1], guard=False, world=world)


@functools.cache
def raising(*kinds, world=1):
    cases = [
        {**RUN, **KINDS[kind], "name": name_of(kind, target), "raise_in": target}
        for kind in kinds
        for target in (TARGETS if world == 1 else HOOKS)
    ]
    return launch.run(cases, guard=True, world=world, limit=480.0)


def ran(kind, target):
    """The launch, and what its one rank wrote of this case."""
    kinds = ("healthy", "frozen") if kind in ("healthy", "frozen") else ("broken", "failing")
    done = raising(*kinds)
    (rank,) = done.ranks(name_of(kind, target))
    told = ("VG902", "VG904")  # a fault, or a reason why batches cannot be completed
    said = [r["why"] for r in done.records(name_of(kind, target)) if r["code"] in told]
    contained = [why for why in said if f"injected into {target}" in why]
    return done, rank, contained


@pytest.mark.parametrize("target", TARGETS)
def test_a_healthy_run_stays_bitwise_equal(target):
    done, rank, contained = ran("healthy", target)
    verdict = bitwise(done.weights(name_of("healthy", target)), plain().weights("healthy"), world=1)
    assert verdict, str(verdict)
    assert len(contained) == len(set(contained))
    assert contained or not rank["raised"] or "dummy:" in target, "a fault is said"


@pytest.mark.parametrize("target", HOOKS)
def test_a_healthy_run_of_two_ranks_stays_bitwise_equal(target):
    done = raising("healthy", world=2)
    ours = done.weights(name_of("healthy", target))
    assert bitwise(ours, plain(2).weights("healthy"), world=2)


@pytest.mark.parametrize("target", TARGETS)
def test_a_freeze_wish_is_obeyed_or_the_fault_is_said(target):
    done, _, contained = ran("frozen", target)
    ours = done.weights(name_of("frozen", target))
    frozen = ours[0].digests == plain().weights("vision-frozen")[0].digests
    as_plain = ours[0].digests == plain().weights("frozen")[0].digests
    assert frozen or (as_plain and contained)


@pytest.mark.parametrize("target", TARGETS)
def test_a_broken_run_is_right_stopped_or_fails_as_it_would(target):
    done, rank, contained = ran("broken", target)
    if rank["stage"] == "done":
        ours = done.weights(name_of("broken", target))
        assert compare(ours, plain().weights("reference"), world=1)
        return
    reason = f"injected into {target}"
    assert contained or reason in rank["error"]
    as_without = rank["error"] == plain().ranks("broken")[0]["error"]
    assert as_without or "Stop: vlmguard stopped" in rank["error"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_failure_stays_the_frameworks_own(target):
    _, rank, _ = ran("failing", target)
    assert rank["error"] == plain().ranks("failing")[0]["error"]
    assert rank["stage"] == plain().ranks("failing")[0]["stage"]


def test_nearly_every_function_was_reached():
    idle = {t for t in TARGETS if not any(ran(kind, t)[1]["raised"] for kind in KINDS)}
    assert {target.removeprefix("vlmguard_colossalai.") for target in idle} <= NOT_HERE
