"""Whether the ranks may have rows of the same kind in each step, by who decides their order."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils import data

from tests.plugins.test_profiles import Model, Rows, _collate
from vlmguard.core.facts import Run, Tower
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.rules import vg106_idle_tower
from vlmguard_accelerate import loop
from vlmguard_transformers import row_order, translate
from vlmguard_transformers.data import columns, peek

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
    assert row_order.alike(kinds, world, batch, drops=False) is alike


def test_the_rows_of_an_incomplete_step_may_be_dropped():
    assert row_order.alike([*IMAGE * 2, *TEXT], 2, 1, drops=True)
    assert not row_order.alike([*IMAGE * 2, *TEXT, *IMAGE, *TEXT], 2, 1, drops=True)


@pytest.mark.parametrize(
    ("kinds", "world", "batch", "drops", "alike"),
    [
        ([*IMAGE * 2, *TEXT * 2], 2, 1, False, True),
        ([*IMAGE, *TEXT, *TEXT, *IMAGE], 2, 2, False, True),  # 0 and 2, 1 and 3: each has one
        ([*IMAGE, *TEXT, *IMAGE, *TEXT], 2, 2, False, False),
        ([*IMAGE * 2, *TEXT], 2, 1, False, True),  # the last row is left over
        ([*IMAGE * 4, *IMAGE, *TEXT], 2, 2, False, False),
        ([*IMAGE * 4, *IMAGE, *TEXT], 2, 2, True, True),
        ([], 2, 1, False, True),
    ],
)
def test_rows_by_turns(kinds, world, batch, drops, alike):
    """What tests/frameworks/swift/test_swift_rows.py takes from ms-swift's own sampler."""
    assert row_order.alike_by_turns(kinds, world, batch, drops) is alike


def trainer(kinds, order="sequential", **more):
    """A Trainer's stand-in, whose class is made as one of transformers'."""
    kind = type("Trainer", (SimpleNamespace,), {"__module__": "transformers.trainer"})
    args = SimpleNamespace(
        world_size=2, per_device_train_batch_size=1, train_sampling_strategy=order,
        accelerator_config=SimpleNamespace(split_batches=False, dispatch_batches=None, **more),
        max_steps=-1, num_train_epochs=3, gradient_accumulation_steps=1,
    )  # fmt: skip
    return kind(model=Model(), data_collator=_collate, args=args, train_dataset=Rows(kinds))


PHASES = ["image", "image", "text", "text"]


def test_a_trainers_own_sampler_is_read(monkeypatch):
    assert row_order.may_be_alike(trainer(PHASES))
    assert not row_order.may_be_alike(trainer(PHASES, "random"))
    assert not row_order.may_be_alike(trainer(["image", "text"]))
    assert row_order.may_be_alike(trainer(PHASES * 30))
    assert not row_order.may_be_alike(trainer([*PHASES * 30, "image", "text"]))
    one = trainer(["image", "text"])
    one.args.accelerator_config.dispatch_batches = True
    assert row_order.may_be_alike(one), "another order, which is not known"
    monkeypatch.setattr(peek, "SECONDS", -1.0)
    assert row_order.may_be_alike(trainer(["image", "text"])), "no time to look"


@pytest.mark.parametrize(("kinds", "alike"), [(PHASES, True), (PHASES[1:], False), (None, True)])
def test_columns_are_read_where_there_are_some(monkeypatch, kinds, alike):
    """tests/frameworks/swift/test_swift_rows.py reads real ones."""
    monkeypatch.setattr(columns, "columns", lambda dataset: ["images"])
    monkeypatch.setattr(columns, "in_order", lambda dataset: kinds)
    assert row_order.may_be_alike(trainer([])) is alike


@pytest.mark.parametrize(("kinds", "alike"), [(PHASES, True), (["image", "text"], False)])
@pytest.mark.parametrize("of", ["ms-swift", "LLaMA-Factory", "TRL", "KTO"])
def test_other_settings_of_the_order(kinds, alike, of):
    one, ordered = trainer(kinds, "random"), trainer(kinds, "random")
    if of == "ms-swift":
        one, ordered = by_turns(one), by_turns(ordered)
        one.args.train_dataloader_shuffle = True
        ordered.args.train_dataloader_shuffle = False
    elif of == "LLaMA-Factory":
        one.finetuning_args = SimpleNamespace(disable_shuffling=False)
        ordered.finetuning_args = SimpleNamespace(disable_shuffling=True)
    elif of == "TRL":
        one.shuffle_dataset, ordered.shuffle_dataset = True, False
    else:  # ms-swift's passes it on
        sampler = {"_get_train_sampler": made_by("swift.rlhf_trainers", "any")}
        swifts = type(
            "RLHFTrainerMixin", (type(ordered),), {**sampler, "__module__": "swift.rlhf_trainers"}
        )
        trls = type("KTOTrainer", (type(ordered),), {**sampler, "__module__": "trl.trainer"})
        kto = type("KTOTrainer", (swifts, trls), {"__module__": "swift.rlhf_trainers"})
        ordered = kto(**vars(ordered))
    assert not row_order.may_be_alike(one), "at random"
    assert row_order.may_be_alike(ordered) is alike


def made_by(module, name):
    def maker(*given):
        pass

    maker.__module__, maker.__qualname__ = module, name
    return maker


def by_turns(one):
    """With ms-swift's loader."""
    maker = {"get_train_dataloader": made_by("swift.trainers.mixin", "any")}
    return type("DataLoaderMixin", (type(one),), maker)(**vars(one))


@pytest.mark.parametrize(
    ("kinds", "turns", "blocks"),
    [
        (["image", "text", "text", "image"], True, True),
        (["image", "image", "text", "text"], True, False),
        (["image", "text", "image", "text"], False, True),
    ],
)
def test_ms_swifts_other_trainers_shard_as_accelerate_does(kinds, turns, blocks):
    """Its KTO has no loader of its own; the setting is in its arguments all the same."""
    one, other = trainer(kinds), trainer(kinds)
    one = by_turns(one)
    for each in (one, other):
        each.args.train_dataloader_shuffle, each.args.per_device_train_batch_size = False, 2
    assert [row_order.may_be_alike(each) for each in (one, other)] == [turns, blocks]


@pytest.mark.parametrize(
    "of", ["cp", "sp", "tp", "launched", "ms-swift", "autotp", "plugin", "packed", "none"]
)
def test_ranks_that_share_rows_or_packs(of):
    one = trainer(["image", "text"])
    if of in ("cp", "sp", "tp"):
        one.args.parallelism_config = SimpleNamespace(**{f"{of}_size": 2})
    elif of == "ms-swift":
        one.template = SimpleNamespace(sequence_parallel_size=2)
    elif of == "launched":
        one.accelerator = SimpleNamespace(parallelism_config=SimpleNamespace(cp_size=2))
    elif of == "plugin":
        plugin = SimpleNamespace(deepspeed_config={"tensor_parallel": {"autotp_size": 2}})
        one.accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin))
    elif of == "autotp":
        one.args.deepspeed = {"tensor_parallel": {"autotp_size": 2}}
    elif of == "packed":
        one.train_dataset.packed_idx = [[0, 1]]
    assert row_order.may_be_alike(one) is (of != "none")


@pytest.mark.parametrize(
    ("texts", "batch", "epochs", "steps", "alike"),
    [
        (2, 1, 1, -1, False),
        (2, 3, 1, -1, True),  # no micro-batch can lack an image
        (50, 8, 3, -1, True),  # one in 10^11 does
        (50, 2, 3, -1, False),
        (50, 2, 3, 20, True),  # of 40 micro-batches, one in 400 does
        (500, 8, 3, -1, False),
        (999, 1, 1, 10, True),  # no image may ever come
        (999, 1, 3, -1, False),
    ],
)
@pytest.mark.parametrize("told", ["columns", "rows"])
def test_text_so_rare_that_no_micro_batch_lacks_an_image(
    monkeypatch, told, texts, batch, epochs, steps, alike
):
    kinds = [*IMAGE * (1000 - texts), *TEXT * texts]
    monkeypatch.setattr(columns, "columns", lambda dataset: ["images"] * (told == "columns"))
    monkeypatch.setattr(columns, "in_order", lambda dataset: kinds)
    monkeypatch.setattr(peek, "some", lambda trainer, dataset: kinds)
    one = trainer(kinds, "random")
    one.args.per_device_train_batch_size, one.args.num_train_epochs = batch, epochs
    one.args.max_steps = steps
    assert row_order.may_be_alike(one) is alike


@pytest.mark.parametrize(
    ("kinds", "alike"), [(PHASES, True), (["image", "text"], False), (None, True)]
)
def test_rows_of_an_evaluation_come_in_their_order(kinds, alike):
    one = trainer(["image", "text"], "random")
    one.args.per_device_eval_batch_size = 1
    one.get_eval_dataloader = made_by("swift.trainers.mixin", "any")  # calls transformers' own
    one._get_eval_sampler = made_by("transformers.trainer", "Trainer._get_eval_sampler")
    one.eval_dataset = {"one": None, "two": None if kinds is None else Rows(kinds)}
    assert row_order.may_be_alike_in_evaluation(one) is alike
    for change in ("loader", "sampler", "groups"):
        other = type(one)(**vars(one))
        other.args = SimpleNamespace(**vars(one.args))
        if change == "loader":
            other.get_eval_dataloader = made_by("script", "Own.get_eval_dataloader")
        elif change == "sampler":  # GRPO's
            other._get_eval_sampler = made_by("trl.trainer.grpo_trainer", "any")
        else:
            other.args.train_sampling_strategy = "group_by_length"
        assert row_order.may_be_alike_in_evaluation(other)


@pytest.mark.parametrize(
    ("generations", "whole", "shuffled", "alike"),
    [(2, None, True, True), (1, None, True, False), (4, 4, True, True), (4, 8, True, False),
     (4, 8, False, True)],
)  # fmt: skip
def test_all_ranks_may_answer_one_prompt(generations, whole, shuffled, alike):
    one = trainer(["image", "text"], "random")
    one = type("GRPOTrainer", (type(one),), {"__module__": "trl.trainer"})(**vars(one))
    one.args.num_generations, one.args.generation_batch_size = generations, whole
    one.shuffle_dataset = shuffled
    assert row_order.may_be_alike(one) is alike


@pytest.mark.parametrize("name", row_order._MAKERS)
def test_a_users_own_sampler_may_see_to_it(name):
    one = trainer(["image", "text"], "random")
    own = type("Script", (type(one),), {name: lambda self: None})
    assert row_order.may_be_alike(own(**vars(one)))


class Grouped(data.Sampler):
    """A user's, of no known length."""

    def __len__(self):
        raise TypeError


ROWS = Rows(["image", "text"])
AT_RANDOM = data.BatchSampler(data.RandomSampler(ROWS), 1, drop_last=True)


@pytest.mark.parametrize(
    ("more", "alike"),
    [
        ({"shuffle": True}, False),
        ({"shuffle": False}, True),
        ({"sampler": Grouped()}, True),
        ({"batch_sampler": Grouped()}, True),
        ({"batch_sampler": AT_RANDOM}, False),
        ({"batch_sampler": data.BatchSampler(Grouped(), 1, drop_last=True)}, True),
        ({"sampler": data.DistributedSampler(ROWS, 2, 0)}, False),
        ({"sampler": data.DistributedSampler(ROWS, 2, 0, shuffle=False)}, True),
        ({"sampler": data.WeightedRandomSampler([1.0, 1.0], 2)}, False),
        ({"batch_size": None}, True),
    ],
)
def test_a_loops_loader(more, alike):
    class Accelerator(SimpleNamespace):
        """Can be held weakly."""

    held, model = Accelerator(
        num_processes=2, process_index=0, gradient_accumulation_steps=1, device=torch.device("cpu")
    ), Model()  # fmt: skip
    one = loop.Loop(held, model, data.DataLoader(ROWS, collate_fn=_collate, **more))
    assert row_order.may_be_alike(one) is alike


def test_deepspeeds_own_loader_shuffles():
    assert loop._shuffled(SimpleNamespace(dataset=ROWS, collate_fn=None, shuffled=True))
    assert not loop._shuffled(SimpleNamespace(dataset=ROWS, collate_fn=None))


@pytest.mark.parametrize(("told", "known"), [(True, True), (False, False), (None, True)])
def test_it_is_asked_once_and_a_fault_of_ours_stops_nobody(monkeypatch, told, known):
    asked = []

    def answer(trainer):
        asked.append(trainer)
        if told is None:
            raise RuntimeError("ours")
        return told

    monkeypatch.setattr(row_order, "may_be_alike", answer)
    read = SimpleNamespace(state=RunState(Settings()), trainer="one", phase="train")
    assert [translate._may_be_alike(read, True, False) for _ in range(2)] == [known, known]
    assert asked == ["one"]


@pytest.mark.parametrize("phase", ["train", "eval"])
@pytest.mark.parametrize("strategy", ["no", "steps"])
@pytest.mark.parametrize("trained", [True, False])
def test_an_evaluation_counts_where_there_is_one(monkeypatch, phase, strategy, trained):
    monkeypatch.setattr(row_order, "may_be_alike", lambda trainer: True)
    monkeypatch.setattr(row_order, "may_be_alike_in_evaluation", lambda trainer: False)
    args = SimpleNamespace(eval_strategy=SimpleNamespace(value=strategy))
    read = SimpleNamespace(
        state=RunState(Settings()), trainer=SimpleNamespace(args=args), phase=phase
    )
    parts = phase == "eval" or strategy == "steps"
    assert translate._may_be_alike(read, trained, True) is not parts


def test_rows_of_a_training_do_not_count_in_an_evaluation(monkeypatch):
    monkeypatch.setattr(row_order, "may_be_alike", lambda trainer: False)
    read = SimpleNamespace(state=RunState(Settings()), trainer=None, phase="eval")
    assert translate._may_be_alike(read, True, False)


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
    assert not found.remedies
    assert vg106_idle_tower.pre_wrap(replace(run, can_pad=True)).remedies
