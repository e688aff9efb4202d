"""Each condition of a rule by itself: what is left when one of them is taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.test_rules import DDP, IDLE, OTHER, VISION, ZERO2
from vlmguard.core.facts import Checkpointing
from vlmguard.rules import RULES

BY_CODE = {rule.CODE: rule for rule in RULES}
FIXED = replace(DDP, find_unused=False)
DEAD = replace(ZERO2, towers=(replace(VISION, adapters=2, input_grads=False),))


def level(code, run):
    finding = BY_CODE[code].pre_wrap(run)
    return finding and finding.level


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (FIXED, "note"),
        (replace(FIXED, forwards=2), "error"),
        (replace(FIXED, shared=True), "error"),
        (replace(FIXED, repeats="yes"), "error"),
        (replace(FIXED, repeats="possible"), "note"),
        (replace(DDP, find_unused=None), "error"),
    ],
)
def test_vg101_is_certain_where_a_module_runs_twice(run, expected):
    assert level("VG101", run) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"towers": (replace(VISION, adapters=0, input_grads=False),)},
        {"towers": (replace(VISION, adapters=2, input_grads=None),)},
        {"towers": (replace(VISION, adapters=2, input_grads=False, checkpointed=False),)},
        {"checkpointing": OTHER},
        {"checkpointing": Checkpointing(False, True)},
    ],
)
def test_vg104_needs_adapters_reentrant_blocks_and_dead_inputs(changed):
    assert level("VG104", DEAD) == "error"
    assert level("VG104", replace(DEAD, **changed)) is None


def test_vg107_is_silent_with_a_static_graph():
    drifts = replace(FIXED, forwards=2)
    assert level("VG107", drifts) == "error"
    assert level("VG107", replace(drifts, static_graph=True)) is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "error"),
        ({"pads": True}, None),
        ({"may_be_unused": "possible"}, "note"),
        ({"may_be_unused": "no"}, None),
        ({"provenance": {"may_be_unused": "assumed"}}, "note"),
        ({"towers": (replace(VISION, trainable=0),)}, None),
    ],
)
def test_vg108_is_certain_only_where_rows_without_images_are_known(changed, expected):
    assert level("VG108", replace(IDLE, **changed)) == expected


@pytest.mark.parametrize(
    ("code", "policy"),
    [("VG101", "fix"), ("VG106", "fix"), ("VG108", "fix"), ("VG201", "error"), ("VG202", "error"),
     ("VG204", "error"), ("VG302", "error"), ("VG401", "warn"), ("VG405", "error")],
)  # fmt: skip
def test_default_policies(code, policy):
    assert policy == BY_CODE[code].DEFAULT
