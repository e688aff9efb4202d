"""Whether the ranks may have rows of the same kind in each step, by who decides their order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.utils import data

from tests.plugins.test_profiles import Model, Rows, _collate
from vlmguard.core.facts import Run, Tower
from vlmguard.rules import vg106_idle_tower
from vlmguard_accelerate import loop
from vlmguard_transformers import row_order

IMAGE, TEXT = ["image"], ["text"]


@pytest.mark.parametrize(
    ("kinds", "world", "batch", "alike"),
    [
        ([*IMAGE * 2, *TEXT * 2], 2, 1, True),
        ([*IMAGE * 4, *TEXT * 4], 2, 2, True),
        ([*IMAGE, *TEXT, *IMAGE, *TEXT], 2, 2, True),  # each batch has one
        ([*IMAGE, *TEXT], 2, 1, False),
        ([*IMAGE * 3, *TEXT * 3], 3, 1, True),
        ([*IMAGE * 2, *TEXT * 2], 3, 1, False),
        ([*IMAGE * 2, *TEXT], 2, 1, False),  # the last step is filled up from the first rows
        (["image", "video"], 2, 1, True),  # one tower
        (["image", "audio"], 2, 1, False),
        ([], 2, 1, True),
    ],
)
def test_rows_in_order(kinds, world, batch, alike):
    assert row_order.alike(kinds, world, batch) is alike


def trainer(kinds, order="sequential", **more):
    """A Trainer's stand-in, whose class is made as one of transformers'."""
    kind = type("Trainer", (SimpleNamespace,), {"__module__": "transformers.trainer"})
    args = SimpleNamespace(
        world_size=2, per_device_train_batch_size=1, train_sampling_strategy=order,
        accelerator_config=SimpleNamespace(split_batches=False, dispatch_batches=None, **more),
    )  # fmt: skip
    return kind(model=Model(), data_collator=_collate, args=args, train_dataset=Rows(kinds))


PHASES = ["image", "image", "text", "text"]


def test_a_trainers_own_sampler_is_read():
    assert row_order.may_be_alike(trainer(PHASES))
    assert not row_order.may_be_alike(trainer(PHASES, "random"))
    assert not row_order.may_be_alike(trainer(["image", "text"]))
    assert not row_order.may_be_alike(trainer(PHASES * 30)), "not all rows are looked at"
    one = trainer(PHASES)
    one.args.accelerator_config.dispatch_batches = True
    assert not row_order.may_be_alike(one)


def test_a_data_set_with_columns_is_read_whole():
    datasets = pytest.importorskip("datasets")
    rows = [[b"x"], [b"x"], [], []] * 500
    for images, alike in ((rows, True), (rows[1:], False)):
        one = trainer([])
        one.train_dataset = datasets.Dataset.from_dict({"images": images})
        assert row_order.may_be_alike(one) is alike


@pytest.mark.parametrize("name", row_order._MAKERS)
def test_a_users_own_sampler_may_see_to_it(name):
    one = trainer(["image", "text"], "random")
    own = type("Script", (type(one),), {name: lambda self: None})
    assert row_order.may_be_alike(own(**vars(one)))


class Grouped(data.Sampler):
    """A user's."""


@pytest.mark.parametrize(
    ("more", "alike"),
    [
        ({"shuffle": True}, False),
        ({"shuffle": False}, True),
        ({"sampler": Grouped()}, True),
        ({"batch_sampler": Grouped()}, True),
    ],
)
def test_a_loops_loader(more, alike):
    rows = Rows(PHASES) if more == {"shuffle": False} else Rows(["image", "text"])
    accelerator = SimpleNamespace(
        num_processes=2, process_index=0, gradient_accumulation_steps=1, device=torch.device("cpu")
    )
    model, keeper = Model(), accelerator

    class Accelerator:
        def __init__(self):
            vars(self).update(vars(keeper))

    held = Accelerator()
    one = loop.Loop(held, model, data.DataLoader(rows, collate_fn=_collate, **more))
    assert row_order.may_be_alike(one) is alike


@pytest.mark.parametrize("may_be_alike", [False, True])
def test_ranks_that_may_be_alike_are_not_stopped(may_be_alike):
    towers = (Tower("vision", ("visual",), 2, 0),)
    run = Run(
        "transformers", strategy="zero3", world=2, towers=towers, may_be_unused="yes",
        may_be_alike=may_be_alike, cannot_pad="refuted",
        provenance={"may_be_unused": "observed"},
    )  # fmt: skip
    found = vg106_idle_tower.pre_wrap(run)
    assert found.level == ("note" if may_be_alike else "error")
    assert found.remedies == ()
