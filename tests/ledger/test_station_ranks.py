"""The station ranks: which copies differ, on which rank, since when."""

from __future__ import annotations

import pytest

from vlmguard.ledger.account import Account, Tensor
from vlmguard.ledger.stations import ranks


def account(trainable=True):
    names = ("visual.a", "visual.b", "layer.a", "layer.b")
    kinds = ("vision", "vision", "llm", "llm")
    tensors = [Tensor(name, kind, 4, "float32", trainable, 0) for name, kind in zip(names, kinds, strict=True)]  # fmt: skip  # noqa: E501
    return Account(tuple(tensors), 3, "ddp")


def pages(*sums, step=1):
    return [
        None if each is None else {"rank": n, "step": step, "ranks": {"index": [0, 1, 2, 3], "sums": list(each)}}  # noqa: E501
        for n, each in enumerate(sums)
    ]  # fmt: skip


def judge(*sums, step=1, memory=None, **told):
    return ranks.judge(pages(*sums, step=step), account(**told), {} if memory is None else memory)


def test_equal_copies_balance():
    found = judge((1, 2, 3, 4), (1, 2, 3, 4))
    assert found.state == "balances"
    assert found.shown == {"compared": 4, "differ": 0, "heard": 2}


def test_the_rank_that_differs_is_named():
    [entry] = judge((1, 2, 3, 4), (1, 9, 3, 4), (1, 2, 3, 4)).entries
    assert entry.code == "VG660"
    assert entry.why.startswith("rank 1 holds other weights than the other ranks")
    assert entry.what == "visual.b"


def test_of_two_ranks_both_are():
    [entry] = judge((1, 2, 3, 4), (5, 6, 7, 4)).entries
    assert entry.why.startswith("ranks 0, 1 hold different weights")
    assert entry.what == "2 of 2 vision tensors, 1 of 2 llm tensors"


def test_since_is_the_first_step_that_it_was_seen_in():
    memory = {}
    judge((1, 2, 3, 4), (1, 2, 3, 4), step=1, memory=memory)
    judge((1, 2, 3, 4), (1, 2, 3, 5), step=2, memory=memory)
    [entry] = judge((1, 2, 3, 4), (1, 2, 3, 6), step=3, memory=memory).entries
    assert entry.since == 2


@pytest.mark.parametrize("trainable", [True, False])
def test_advice_is_for_what_differs(trainable):
    [entry] = judge((1, 2, 3, 4), (1, 2, 3, 5), trainable=trainable).entries
    assert ("past the wrapper" in entry.advice) is trainable


def test_a_rank_that_was_not_heard_leaves_it_open():
    found = judge((1, 2, 3, 4), None, (1, 2, 3, 4))
    assert (found.state, found.reason) == ("cannot tell", "rank 1 was not heard")
    assert judge((1, 2, 3, 4), None, (1, 2, 3, 5)).state == "differs"


def test_one_rank_has_nothing_to_compare():
    assert ranks.judge([{"rank": 0, "step": 1, "ranks": {}}], account(), {}).state == "idle"


def test_weights_that_are_averaged_now_and_then_are_not_compared():
    """Local SGD: all micro-batches run under no_sync()."""
    found = pages((1, 2, 3, 4), (5, 6, 7, 8))
    for each in found:
        each["reduce"] = {"forwards": ["no_sync", "no_sync"]}
    assert ranks.judge(found, account(), {}).state == "cannot tell"
    found[1]["reduce"] = {"forwards": ["no_sync", ""]}
    assert ranks.judge(found, account(), {}).state == "differs"
