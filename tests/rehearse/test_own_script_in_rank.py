"""What a user's own script meets in a rank: its loaders, its rows, and GPUs that are not there."""

from __future__ import annotations

import random
import sys
import types

import pytest

pytest.importorskip("torch")

import torch
from torch.utils import data

from vlmguard_transformers.rehearsal import chosen_rows, loaders, machine, own_parts


class Numbers(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return at


@pytest.fixture
def in_order(monkeypatch):
    monkeypatch.setattr(data.DataLoader, "__init__", data.DataLoader.__init__)
    loaders.in_order()


def told(loader):
    return [batch.tolist() for batch in loader]


def test_a_loader_of_its_own_is_not_shuffled_and_starts_no_process(in_order):
    loader = data.DataLoader(Numbers(), 2, shuffle=True, num_workers=2, prefetch_factor=4)
    assert told(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert loader.num_workers == 0
    drawn = data.DataLoader(Numbers(), sampler=data.RandomSampler(Numbers()), batch_size=4)
    assert told(drawn) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_ranks_of_its_own_sampler_get_rows_that_follow_each_other(in_order):
    sampler = data.DistributedSampler(Numbers(), num_replicas=2, rank=1, shuffle=True)
    loader = data.DataLoader(Numbers(), batch_size=2, sampler=sampler)
    assert told(loader) == [[2, 3], [6, 7]]
    assert (len(loader), loader.sampler.rank) == (2, 1)
    loader.sampler.set_epoch(1)


def test_what_a_collator_draws_depends_on_its_rows_alone(in_order):
    def collate(rows):
        return [*rows, random.random(), torch.rand(1).item()]

    first, second = data.DataLoader(Numbers(), batch_size=2, collate_fn=collate)._get_iterator(), \
        data.DataLoader(Numbers(), batch_size=2, collate_fn=collate)._get_iterator()  # fmt: skip
    one, two = next(first), next(first)
    next(second)
    assert next(second) == two
    assert one[2:] != two[2:]


def test_parts_of_a_batch_count():
    batch = {"query": {"input_ids": torch.ones(1)}, "passage": {"pixel_values": torch.ones(2)}}
    other = {**batch, "query": {"input_ids": torch.zeros(1)}}
    assert chosen_rows.digest(batch) != chosen_rows.digest(other)
    found, count = chosen_rows.kinds([batch], lambda rows: rows[0], shuffled=False)
    assert (found[0]["kind"], count) == ("image", 1)


def test_rows_that_are_made_quickly_are_all_looked_at():
    rows = [{"pixel_values": [1]} if at == 1900 else {"input_ids": [1]} for at in range(2000)]
    found, _ = chosen_rows.kinds(rows, lambda some: some[0], shuffled=True)
    assert [one["place"] for one in found if one["kind"] == "image"] == [1900]


def test_what_is_streamed_stays_so():
    class Stream(data.IterableDataset):
        def __iter__(self):
            yield from "abcdef"

    found = chosen_rows.chosen(Stream(), [4, 0, 0])
    assert isinstance(found, data.IterableDataset)
    assert list(found) == ["e", "a", "a"]


def scripted(x):
    return x + torch.ones(2)


def test_tensors_that_are_asked_for_on_a_gpu_are_made_here(monkeypatch):
    for name in (*machine._MAKERS, "load"):
        monkeypatch.setattr(torch, name, getattr(torch, name))
    monkeypatch.setattr(torch.Tensor, "to", torch.Tensor.to)
    machine._tensors_here()
    made = torch.zeros(2, device="cuda:1")
    assert made.device.type == "cpu"
    assert made.to(torch.device("cuda", 0), torch.float64).dtype == torch.float64
    assert made.to(0).device.type == "cpu"
    with torch.device("meta"):
        assert torch.empty(2).is_meta
    assert torch.jit.script(scripted)(made).tolist() == [1.0, 1.0]


def test_a_module_beside_the_script_comes_before_a_package(tmp_path, monkeypatch):
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mine.py").write_text("")
    (tmp_path / "json.py").write_text("")
    package = types.SimpleNamespace(__file__="/elsewhere/datasets/__init__.py")
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setitem(sys.modules, "datasets.splits", package)
    machine.own_names(str(tmp_path / "other"))
    assert "datasets" in sys.modules
    machine.own_names(str(tmp_path))
    assert not {"datasets", "datasets.splits"} & set(sys.modules)
    assert "json" in sys.modules


class Gathers(torch.nn.Module):
    def forward(self, x):
        torch.distributed.all_gather([x], x)
        return x


def test_a_model_of_its_own_that_asks_other_ranks_is_known():
    assert own_parts.gathers(torch.nn.Sequential(Gathers(), torch.nn.Linear(1, 1))) == ["Gathers"]
    assert own_parts.gathers(torch.nn.Linear(1, 1)) == []


class Evaluates:
    """Stands for a Trainer."""

    def __init__(self, metric, found):
        self.args = types.SimpleNamespace(metric_for_best_model=metric)
        self.eval_dataset, self.found = list(range(20)), found

    def evaluate(self, rows):
        assert len(rows) == own_parts.FEW
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


GIVEN = {"eval_strategy": "steps", "load_best_model_at_end": True}


@pytest.mark.parametrize(("metric", "given", "told"), [
    ("accuracy", GIVEN, "accuracy is not in what its evaluation gives: eval_loss"),
    ("eval_loss", GIVEN, ""),
    (None, GIVEN, ""),
    ("accuracy", {"eval_strategy": "no"}, ""),
])  # fmt: skip
def test_a_metric_that_its_evaluation_does_not_give_is_known(metric, given, told):
    found = own_parts.missing_metric(Evaluates(metric, {"eval_loss": 1.0}), given, [].append)
    assert found.partition(": ")[2] == told


def test_an_evaluation_that_fails_here_is_left_open():
    limits = []
    trainer = Evaluates("accuracy", ValueError("no labels"))
    assert own_parts.missing_metric(trainer, GIVEN, limits.append) == ""
    assert limits == ["its evaluation could not be tried here: ValueError: no labels"]
