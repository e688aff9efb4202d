"""The station update: what did not move, what is not held, what moved though frozen."""

from __future__ import annotations

import pytest

from vlmguard.ledger.account import Account, Tensor
from vlmguard.ledger.stations import update

NAMES = {"visual.a": "vision", "merger.a": "aligner", "layer.a": "llm", "layer.b": "llm"}
MOVES = [64, 64, 64, 64, 64, 64, 1.0]
"""Entries; with a gradient; due; moved; both; at the highest rate; squares."""


def account(dtype="float32"):
    tensors = [Tensor(name, kind, 640, dtype, True, 0) for name, kind in NAMES.items()]
    return Account(tuple(tensors))


def page(rows=(), step=1, skipped=0, **more):
    """Of four tensors that moved, but for those in ``rows``."""
    every = dict.fromkeys(range(4), MOVES) | dict(rows)
    read = {
        "index": list(every), "entries": [row[0] for row in every.values()],
        "rows": [row[1:] for row in every.values()],
        "trains": [1] * len(every), "master": [0] * len(every), "group": [0] * len(every),
        "missing": [], "lr": [1e-3], "peak": [1e-3], "family": "adam", "infinite": None,
        "untied": [],
    }  # fmt: skip
    return {"rank": 0, "step": step, "skipped": skipped, "update": read | more}


def judge(*pages, dtype="float32", memory=None):
    return update.judge(pages, account(dtype), {} if memory is None else memory)


def codes(found):
    return [(entry.code, entry.level) for entry in found.entries]


def test_what_moves_balances():
    found = judge(page(lr=[2e-6, 1e-5], peak=[2e-6, 1e-5], group=[0, 1, 1, 1]))
    assert (found.state, found.entries) == ("balances", ())
    assert found.shown["rates"] == "vision 2e-06, aligner 1e-05, llm 1e-05"
    assert found.shown["towers"]["llm"]["moved"] == 2
    assert found.shown["groups"] == [{"lr": 2e-6}, {"lr": 1e-5}]


def test_one_that_had_a_gradient_and_did_not_move():
    [entry] = judge(page({2: [64, 50, 50, 0, 0, 50, 0.0]})).entries
    assert (entry.code, entry.what) == ("VG651", "layer.a")
    assert "0.001" in entry.why


@pytest.mark.parametrize(
    "row",
    [
        [64, 50, 0, 0, 0, 50, 0.0],  # learning rate 0: no update was due
        [64, 0, 0, 0, 0, 0, 0.0],  # no gradient
        [64, 3, 3, 0, 0, 3, 0.0],  # all three, but it moved elsewhere
        [64, 2, 1, 0, 0, 2, 0.0],  # one of two was due
    ],
)
def test_what_was_not_due_is_no_error(row):
    row = [*row[:3], 1, *row[4:]] if row[1] == 3 else row
    assert judge(page({2: row})).state == "balances"


def test_nothing_moved():
    still = [64, 50, 50, 0, 0, 50, 0.0]
    [entry] = judge(page(dict.fromkeys(range(4), still))).entries
    assert entry.why.startswith("no weight moved in the step")


STILL = [64, 50, 0, 0, 0, 0, 0.0]


@pytest.mark.parametrize(
    ("rows", "told", "state"),
    [
        (range(4), {"family": ""}, "cannot tell"),  # an optimizer of the user's own
        (range(4), {"family": "", "lr": [None]}, "cannot tell"),
        (range(4), {"family": "", "lr": [0.0]}, "balances"),
        (range(1, 4), {"family": ""}, "balances"),  # one did
        (range(4), {}, "balances"),  # Adam's updates were too small: none was due
    ],
)
def test_an_optimizer_that_nobody_knows_and_no_weight_that_moves(rows, told, state):
    found = judge(page(dict.fromkeys(rows, STILL), **told))
    assert (found.state, found.entries) == (state, ())
    assert ("no weight moved" in found.reason) is (state == "cannot tell")


def test_an_overflow_is_no_error():
    still = [64, 50, 50, 0, 0, 50, 0.0]
    found = judge(page(dict.fromkeys(range(4), still), infinite=[1.0]))
    assert (found.state, found.entries) == ("cannot tell", ())
    assert judge(page(skipped=2)).shown["left out before"] == 2


def test_a_shard_that_moved_elsewhere_is_no_error():
    still, moves = [64, 50, 50, 0, 0, 50, 0.0], page()
    assert judge(page({2: still}), moves | {"rank": 1}).state == "balances"


@pytest.mark.parametrize(("moved", "found"), [(2, "warning"), (25, "note"), (40, None)])
def test_updates_in_bf16_that_round_to_nothing(moved, found):
    row = [64, 64, 0, moved, moved, moved, 0.1]
    told = judge(page(dict.fromkeys(range(4), row)), dtype="bfloat16")
    assert codes(told) == ([("VG651", found)] if found else [])
    assert judge(page(dict.fromkeys(range(4), row), master=[1] * 4), dtype="bfloat16").entries == ()
    assert judge(page(dict.fromkeys(range(4), row), family=""), dtype="bfloat16").entries == ()


def test_while_a_schedule_warms_up_its_highest_rate_counts():
    row = [64, 64, 0, 1, 1, 60, 0.1]
    rows = dict.fromkeys(range(4), row)
    assert judge(page(rows, lr=[1e-5]), dtype="bfloat16").entries == ()
    assert codes(judge(page(rows), dtype="bfloat16")) == [("VG651", "warning")]


def test_what_no_optimizer_holds():
    [entry] = judge(page(missing=[0, 1])).entries
    assert (entry.code, entry.what) == ("VG650", "1 of 1 vision tensors, 1 of 1 aligner tensors")
    assert "freeze" in entry.advice
    [entry] = judge(page(missing=[0, 1, 2, 3], group=[-1] * 4)).entries
    assert "once the model is final" in entry.advice


def test_what_another_ranks_optimizer_holds_is_not_missing():
    assert judge(page(missing=[0]), page() | {"rank": 1}).entries == ()


def test_a_frozen_one_that_moved():
    moved = [64, 0, 0, 64, 0, 0, 1.0]
    [entry] = judge(page({0: moved}, trains=[0, 1, 1, 1])).entries
    assert (entry.code, entry.what) == ("VG652", "visual.a")
    assert "momentum" in entry.advice
    frozen = [64, 0, 0, 0, 0, 0, 0.0]
    assert judge(page({0: frozen}, trains=[0, 1, 1, 1], group=[-1, 0, 0, 0])).entries == ()


def test_one_that_was_frozen_after_its_backward_is_none():
    assert judge(page(trains=[0, 1, 1, 1])).entries == ()


def test_a_tie_that_broke():
    [entry] = judge(page(untied=[["embed.weight", "lm_head.weight"]])).entries
    assert (entry.code, entry.what) == ("VG652", "embed.weight and lm_head.weight")


def test_two_copies_of_what_the_class_ties():
    copies = [["embed.weight", "lm_head.weight"]]
    [entry] = judge(page(copies=copies, alike=[True])).entries
    assert (entry.code, entry.level) == ("VG652", "warning")
    assert "the class ties them" in entry.why
    assert entry.advice == "call model.tie_weights()"
    [entry] = judge(page(copies=copies, alike=[True], adapted=True)).entries
    assert entry.advice.startswith("ensure_weight_tying=True"), "PEFT's model cannot tie them"
    assert judge(page(copies=copies, alike=[False])).entries == (), "a checkpoint has both"


def test_since_is_the_first_step():
    memory = {}
    judge(page(missing=[0]), memory=memory)
    [entry] = judge(page(missing=[0], step=3), memory=memory).entries
    assert entry.since == 1


def test_without_any_gradient_it_cannot_tell():
    row = [64, 0, 0, 64, 0, 0, 1.0]
    assert judge(page(dict.fromkeys(range(4), row))).state == "cannot tell"
