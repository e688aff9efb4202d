"""Never a false "right": each safeguard taken out lets one through."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from vlmguard.rehearse import fixture, verdict
from vlmguard.rehearse.compare import Difference
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.training_rows import DIFFER, LOADER, Window
from vlmguard.rehearse.verdict import (
    CANNOT,
    CRASH,
    HANG,
    RIGHT,
    SAFEGUARDS,
    WRONG,
    Judgement,
    Seen,
    decayed,
    judged,
    overall,
)

NAMES = ("visual.a", "model.b")
FINE = Difference({"visual.a": 1e-6, "model.b": 0.0}, moved=frozenset(NAMES))
GOOD = Seen(
    steps=(4, 4), asked=4, wrapped=("DistributedDataParallel",) * 2, apart=None,
    windows=(Window(LOADER, 2, 1), Window(DIFFER, 2, 3)), differences=(FINE, FINE),
    towers={"vision": ["visual.a"], "llm": ["model.b"]},
    wanted=frozenset({"vision", "llm"}), strategy="ddp",
)  # fmt: skip
STILL = Difference({"visual.a": 0.0, "model.b": 0.0})
TRAPS = {
    verdict.steps_ran: replace(GOOD, steps=(4, 0)),
    verdict.engaged: replace(GOOD, apart="rank 0: no gradient was ever reduced"),
    verdict.comparable: replace(GOOD, differences=(FINE, Difference(fault="other weights"))),
    verdict.moved: replace(GOOD, differences=(STILL, STILL), wanted=frozenset()),
    verdict.towers_looked_at: replace(
        GOOD, differences=(replace(FINE, moved=frozenset({"model.b"})),) * 2
    ),
    verdict.beyond_rounding: replace(
        GOOD, differences=(FINE, replace(FINE, errors={"model.b": 1.2e-3}))
    ),
}


def test_right():
    assert judged(GOOD).kind == RIGHT


def test_right_needs_books_that_balance():
    right, crash = judged(GOOD), Judgement("crash")
    assert verdict.balanced(right, "") == right
    told = verdict.balanced(right, "VG620: the target of each token is itself")
    assert (told.kind, told.code, told.why[:5]) == (WRONG, 1, "VG620")
    assert verdict.balanced(crash, "VG620: …") == crash
    assert verdict.balanced(told, "VG620") == told
    scaled = Judgement(WRONG, why="2.00 times")
    assert verdict.balanced(scaled, "VG622: 4 times").why == "2.00 times; VG622: 4 times"


@pytest.mark.parametrize(("code", "level", "own_rows", "told"), [
    ("VG620", "warning", False, True),
    ("VG640", "warning", False, True),
    ("VG650", "warning", True, True),
    ("VG302", "warning", True, True),
    ("VG610", "warning", True, True),
    ("VG610", "warning", False, False),
    ("VG612", "warning", True, False),
    ("VG630", "note", True, False),
    ("VG108", "warning", True, False),
])  # fmt: skip
def test_which_findings_take_right_away(tmp_path, code, level, own_rows, told):
    scene = Scene("guard on", "sft", (), "", tmp_path)
    lines = [{"kind": "ledger"}, {"kind": "finding", "code": code, "level": level, "why": "so"}]
    (tmp_path / "report.rank0.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert fixture.unbalanced(scene, own_rows) == (f"{code}: so" if told else "")
    assert fixture.booked(scene)
    assert not fixture.booked(replace(scene, place=tmp_path / "none"))


def test_every_safeguard_has_its_trap():
    assert set(TRAPS) == set(SAFEGUARDS)


@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda one: one.__name__)
def test_without_it_a_trap_would_be_right(safeguard):
    trap = TRAPS[safeguard]
    assert judged(trap).kind == CANNOT
    assert judged(trap).why
    rest = [one for one in SAFEGUARDS if one is not safeguard]
    assert judged(trap, rest).kind == RIGHT


@pytest.mark.parametrize("trap", [
    replace(GOOD, wrapped=("DistributedDataParallel", "none")),
    replace(GOOD, strategy="zero3"),  # DDP where ZeRO-3 was asked for
    replace(GOOD, strategy="fsdp2"),
    replace(GOOD, steps=()),
    replace(GOOD, differences=()),
    replace(GOOD, differences=(FINE,)),  # of one order of two
    replace(GOOD, wanted=frozenset({"vision", "llm", "aligner"})),
])  # fmt: skip
def test_more_traps(trap):
    assert judged(trap).kind == CANNOT


def test_wrong_numbers_say_which_order_and_tensors():
    bad = replace(FINE, errors={"visual.a": 0.98, "model.b": 0.0})
    found = judged(replace(GOOD, differences=(FINE, bad)))
    assert (found.kind, found.order, found.step) == (WRONG, DIFFER, 4)
    assert found.tensors[0] == ("visual.a", 0.98)
    assert (found.count, found.judged) == (1, 2)


def test_ranks_that_drift_apart_are_wrong():
    bad = replace(FINE, drift=(0.5, "visual.a"))
    found = judged(replace(GOOD, differences=(bad, FINE)))
    assert (found.kind, found.off) == (WRONG, 0.5)
    both = replace(bad, errors={"model.b": 0.25, "visual.a": 0.24})
    found = judged(replace(GOOD, differences=(both, FINE)))
    assert (found.off, found.tensors[0], found.count) == (0.25, ("model.b", 0.25), 2)
    assert "by 50%" in found.why


@pytest.mark.parametrize("trap", [verdict.engaged, verdict.comparable])
def test_ranks_that_drift_apart_are_wrong_where_no_more_can_be_said(trap):
    apart = [replace(one, drift=(0.5, "model.b")) for one in TRAPS[trap].differences]
    found = judged(replace(TRAPS[trap], differences=apart))
    assert found.kind == WRONG
    assert trap(TRAPS[trap]) in found.why


def test_a_forward_past_ddp_is_compared():
    apart = TRAPS[verdict.engaged]
    assert verdict.unused(apart)
    assert not verdict.unused(replace(apart, wrapped=("none", "none")))
    assert not verdict.unused(replace(apart, strategy="zero2"))


def test_wrong_is_told_where_a_tower_was_not_looked_at_too():
    bad = Difference({"model.b": 1.0}, moved=frozenset({"model.b"}))
    assert judged(replace(GOOD, differences=(bad, bad))).kind == WRONG


def test_what_the_guard_alone_breaks_is_the_verdict():
    right, crash = Judgement(RIGHT), Judgement(CRASH)
    assert overall(crash, right) is crash
    assert overall(right, Judgement(HANG)).kind == HANG
    assert overall(right, right) is right
    assert [Judgement(kind).code for kind in (RIGHT, CRASH, HANG, WRONG, CANNOT)] == [0, 1, 1, 1, 2]


def test_rounding_is_no_reason_to_doubt():
    rounded = replace(FINE, errors={"model.b": 2e-4})
    assert judged(replace(GOOD, differences=(FINE, rounded))).kind == RIGHT


@pytest.mark.parametrize(("rounding", "kind"), [(0.0, CANNOT), (1e-5, CANNOT), (4e-4, RIGHT),
                                                (0.02, CANNOT)])  # fmt: skip
def test_rounding_is_measured_where_there_is_doubt(rounding, kind):
    doubtful = replace(FINE, errors={"model.b": 1.5e-3}, rounding=rounding)
    found = judged(replace(GOOD, differences=(FINE, doubtful)))
    assert found.kind == kind
    assert kind == RIGHT or "rounding" in found.why


@pytest.mark.parametrize(("strategy", "kind"), [("zero1", CANNOT), ("ddp", RIGHT)])
def test_weight_decay_moves_what_has_no_gradient_under_zero(strategy, kind):
    """Real ranks: Gemma 3 on text alone under ZeRO-1, whose tower moved by 0.5."""
    seen = replace(GOOD, strategy=strategy, towers={**GOOD.towers, "audio": ["audio.a"]})
    assert decayed(Judgement(RIGHT), seen).kind == kind
