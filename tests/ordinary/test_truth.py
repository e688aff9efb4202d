"""What may be said of a healthy run depends on the run, and the committed records keep to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.ordinary import campaign, draws, truth

UNUSED = "[rank0]:[W1129 12:00:00.123456789 reducer.cpp:1546] Warning: find_unused_parameters=True "
UNUSED += "was specified in DDP constructor, but did not find any unused parameters"
SET = {"code": "VG106", "outcome": "set", "level": "note", "why": "if a batch has no image"}
PLAIN = replace(
    draws.draw(24, 2, 0), program="Trainer", model="qwen2_vl", strategy="ddp", rows="image",
    tuning="full", features=(), batch=1, accumulation=1, checkpointing=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "true", "printed"),
    [
        ({}, True, True),
        ({"rows": "rare pairs", "tuning": "lora"}, True, True),
        ({"tuning": "frozen tower"}, False, False),  # no tower trains
        ({"tuning": "lora llm"}, False, False),
        ({"tuning": "lora llm", "model": "mllama"}, True, True),  # its cross-attention does
        ({"rows": "rare text"}, False, False),  # the run itself looks for unused parameters
        ({"features": ("modality dropout",)}, False, False),
        ({"program": "loop of two models"}, False, False),
        ({"features": ("compile",)}, False, False),
        ({"features": ("text replay",)}, False, False),  # two forwards a step
        ({"world": 4}, False, False),  # from three ranks on it would round otherwise
        ({"world": 1, "strategy": "single"}, False, False),
        ({"strategy": "zero2"}, True, False),
        ({"strategy": "zero2", "tuning": "frozen tower"}, False, False),
        ({"strategy": "zero3", "tuning": "frozen tower"}, True, False),  # it is gathered
        ({"strategy": "fsdp2", "rows": "phases"}, True, False),
    ],
)
def test_what_vg106_sets_is_true_of_some_draws_alone(change, true, printed):
    draw = replace(PLAIN, **change)
    assert (not truth.untrue(draw, [SET])) is true
    assert truth.may_be_said(draw, UNUSED) is printed
    assert not truth.may_be_said(draw, "Warning: something else")


@pytest.mark.parametrize(
    ("change", "true"),
    [
        ({"strategy": "fsdp2", "accumulation": 4, "features": ("interrupted",)}, ["VG640"]),
        ({"strategy": "fsdp2", "features": ("interrupted",)}, []),  # no window is broken off
        ({"accumulation": 4, "features": ("interrupted",)}, []),
        ({"accumulation": 4, "features": ("skipped batch",)}, ["VG640", "VG660"]),
        ({"features": ("skipped batch",)}, []),
    ],
)
def test_gradients_that_the_run_itself_leaves_or_does_not_average(change, true):
    draw = replace(PLAIN, **change)
    found = [{"code": code, "outcome": "warned", "why": ""} for code in ("VG640", "VG660")]
    assert [one["code"] for one in found if not truth.untrue(draw, [one])] == true


def test_no_committed_record_says_what_is_not_true_of_it():
    found, judged = [], 0
    for told in campaign.records().values():
        for one in told.get("said", ()):
            code, _, outcome = one.partition(" ")
            outcome = "" if outcome == "note" else outcome  # a note has no outcome
            finding = {"code": code, "outcome": outcome, "level": "note", "why": ""}
            judged += 1
            if truth.untrue(draws.read(told["draw"]), [finding]):
                found.append((told["name"], one))
    assert not found
    assert judged > 50
