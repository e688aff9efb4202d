"""Station reach in one process: towers and layers that get no gradient, and healthy windows."""

from __future__ import annotations

import random

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.ledger.sums import Net, batch, pages, said, verdicts
from vlmguard.ledger.between_ranks.gather import Gather
from vlmguard.ledger.when import When
from vlmguard_torch.ledger import watcher
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers.reach import Reach
from vlmguard_torch.ledger.readers.reduce import Reduce
from vlmguard_torch.ledger.watcher import account_of


def told(body, windows=4, **how):
    return verdicts(body, "reach", windows=windows, readers=[Reduce, Reach], **how)


def step(model, optimizer, *losses):
    optimizer.zero_grad()
    for loss in losses:
        loss.backward()
    optimizer.step()


class Dark(Net):
    """Its tower runs without gradients."""

    def __init__(self):
        super().__init__()
        self.visual.forward = torch.no_grad()(self.visual.forward)


class Cut(Net):
    """What its tower gives is detached inside."""

    def __init__(self):
        super().__init__()
        inner = self.visual.forward
        self.visual.forward = lambda x: inner(x).detach()


class Layers(Net):
    """The tower has layers behind the one that is used, as LLaVA's."""

    def __init__(self):
        super().__init__()
        self.visual = torch.nn.ModuleDict(
            {"a": torch.nn.Linear(24, 24), "b": torch.nn.Linear(24, 24)}
        )
        self.visual.forward = self._see

    def _see(self, x):
        first = self.visual.a(x)
        self.visual.b(first)
        return first


class Reentrant(Layers):
    """Its first layer is checkpointed with reentrance, and its input needs no gradient."""

    def _see(self, x):
        return self.visual.b(checkpoint(self.visual.a, x, use_reentrant=True))


def plain(model, optimizer, number):
    step(model, optimizer, model(x=batch(model)))


WRONG = {
    "no_grad": (Dark, "2 of 2 vision tensors", "gradients switched off", 1),
    "detached": (Cut, "2 of 2 vision tensors", "does not reach them", 1),
    "reentrant": (Reentrant, "2 of 4 vision tensors", "gradients switched off", 2),
}


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_gets_no_gradient_is_told_by_the_third_step(wrong):
    net, what, why, first = wrong
    found = told(plain, net=net)
    assert [bool(each.entries) for each in found] == [n >= first for n in range(4)]
    [entry] = found[-1].entries
    assert (entry.code, entry.level, entry.what) == ("VG630", "warning", what)
    assert entry.since == first + 1
    assert why in entry.why


def test_rows_of_text_between_them_change_nothing():
    def body(model, optimizer, number):
        step(model, optimizer, model(x=batch(model), image=number % 2 == 0))

    assert said(told(body, net=Dark))[:1] == ["VG630 warning"]


def test_a_tower_that_trained_and_no_longer_does():
    def body(model, optimizer, number):
        if number == 2:
            model.visual.forward = torch.no_grad()(model.visual.forward)
        plain(model, optimizer, number)

    found = told(body, windows=5)
    assert [len(each.entries) for each in found] == [0, 0, 0, 1, 1]
    assert "earlier window of such rows" in found[-1].entries[0].why


def test_layers_behind_the_feature_layer_are_one_note():
    found = told(plain, net=Layers, windows=5)
    assert said(found) == ["VG630 note"]
    assert "2 of 4 vision tensors" in found[2].entries[0].why


class Behind(Layers):
    """The same under reentrant checkpointing: the last layer only runs without gradients, since
    nothing has it run again."""

    def _see(self, x):
        first = checkpoint(self.visual.a, x.requires_grad_(), use_reentrant=True)
        checkpoint(self.visual.b, first, use_reentrant=True)
        return first


def test_the_same_layers_under_reentrant_checkpointing():
    found = told(plain, net=Behind, windows=5)
    assert said(found) == ["VG630 note"]
    assert "2 of 4 vision tensors" in found[2].entries[0].why
    assert "nothing uses their output" in found[2].entries[0].why


def freeze(model, optimizer, number):
    model.visual.requires_grad_(number % 3 == 0)
    plain(model, optimizer, number)


def lisa(model, optimizer, number):
    """One layer at a time, the others' gradients are thrown away."""
    optimizer.zero_grad()
    model(x=batch(model)).backward()
    for n, p in enumerate(model.parameters()):
        p.grad = p.grad if n % 3 == number % 3 else None
    optimizer.step()


def skipped(model, optimizer, number):
    loss = model(x=batch(model)) if number % 2 else torch.zeros((), requires_grad=True)
    step(model, optimizer, loss)


def mixed(model, optimizer, number):
    rows = [model(x=batch(model), image=image) for image in (number % 2 == 0, False)]
    step(model, optimizer, *rows)


def generated(model, optimizer, number):
    with torch.no_grad():
        model(x=batch(model))
    plain(model, optimizer, number)


def evaluated(model, optimizer, number):
    model.eval()
    with torch.no_grad():
        model(x=batch(model))
    model.train()
    step(model, optimizer, model(x=batch(model), image=number > 2))


def dropped(model, optimizer, number):
    """Features of images are dropped at random, after the tower ran."""
    seen = model.visual(batch(model))
    kept = seen if random.Random(number).random() < 0.3 else batch(model)
    step(model, optimizer, model(x=kept, image=False))


HEALTHY = {
    "plain": plain, "frozen in stages": freeze, "LISA": lisa, "batches skipped": skipped,
    "mixed rows": mixed, "generation between": generated, "evaluation between": evaluated,
    "dropped at random": dropped,
}  # fmt: skip


@pytest.mark.parametrize("body", HEALTHY.values(), ids=HEALTHY)
def test_healthy_windows(body):
    found = told(body, windows=8)
    assert not [each for each in said(found) if "warning" in each]
    assert {each.state for each in found} <= {"balances", "idle"}


@pytest.mark.parametrize("body", HEALTHY.values(), ids=HEALTHY)
def test_not_a_bit_differs(body):
    states = []
    for watched in (True, False):
        model, _, _ = pages(body, 4, watched=watched, readers=[Reduce, Reach])
        states.append([*model.parameters(), torch.get_rng_state()])
    assert all(map(torch.equal, *states))


def test_a_tower_in_evaluation_mode_is_shown():
    def body(model, optimizer, number):
        model.visual.eval()
        plain(model, optimizer, number)

    assert told(body)[0].shown["eval"] == ["vision"]
    assert told(plain)[0].shown["eval"] == []


def test_all_hooks_are_off_afterwards():
    model, _, found = pages(plain, net=Layers, readers=[Reduce, Reach])
    assert len(found) == 3
    assert not any(p._backward_hooks or p._post_accumulate_grad_hooks for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.fixture
def one_rank():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("original", [True, False])
def test_fsdp1_cannot_be_told_and_makes_no_fault(one_rank, monkeypatch, original):
    from torch.distributed import fsdp

    def flat():
        return fsdp.FullyShardedDataParallel(
            Net(), device_id=torch.device("cpu"), use_orig_params=original
        )

    monkeypatch.setattr(watcher, "contain", lambda what, call, *args: call(*args))
    readers = [Reduce, Reach]
    *_, found = pages(
        lambda model, optimizer, _: step(model, optimizer, model(batch(model))),
        net=flat, readers=readers,
    )  # fmt: skip
    why = "FSDP1 keeps parameters in flat tensors"
    assert [page["unread"] for page in found] == [{"reduce": why, "reach": why}] * 3


def test_of_several_ranks_a_new_kind_of_row_is_asked_for():
    """No rank watches it at once: it asks all of them to watch a later window."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    subject = Subject(model, optimizer, tuple(model.parameters()), account_of(model, optimizer))
    asked = []
    gather = Gather(lambda: None, 0, 2)
    gather.wishes.wish = asked.append
    watched = watcher.Watcher(subject, [Reach], windows=0, when=When("first", 0, 5), gather=gather)
    watched.window = 3
    assert watched._new_kind(["image"]) is False
    assert asked == [3]
    watched.close(0.0)
