"""Which parameters a backward reached, told without hooks where the gradient stays."""

from __future__ import annotations

import pytest
import torch

from vlmguard_torch.gradients import Watch

PATHS = {"llm": ("a",), "vision": ("b",)}


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)


def watched(model, watch, *parts):
    watch.before(("image",))
    sum(getattr(model, part)(torch.ones(1, 2)).sum() for part in parts).backward()
    return watch.after().unreached


def handles(model):
    return [p for p in model.parameters() if p._post_accumulate_grad_hooks]


@pytest.mark.parametrize("stays", [True, False])
def test_what_was_reached(stays):
    model = Two()
    assert set(watched(model, Watch(model, PATHS, stays=stays), "a")) == {"vision"}
    model.zero_grad(set_to_none=True)
    assert watched(model, Watch(model, PATHS, stays=stays), "a", "b") == {}
    assert not handles(model)


def test_hooks_only_where_a_gradient_says_nothing():
    model = Two()
    Watch(model, PATHS).before(("image",))
    assert not handles(model)
    Watch(model, PATHS, stays=False).before(("image",))
    assert len(handles(model)) == 4


def test_a_gradient_of_an_earlier_step_is_none_of_this_one():
    model = Two()
    watched(model, Watch(model, PATHS), "a", "b")
    model.zero_grad(set_to_none=False)
    assert set(watched(model, Watch(model, PATHS), "a")) == {"vision"}


@pytest.mark.parametrize("kind", ["post", "tensor", "torch"])
def test_an_optimizer_inside_backward_takes_gradients_away(kind):
    model = Two()

    def take(p):
        p.grad = None

    for p in model.parameters():
        if kind == "post":
            p.register_post_accumulate_grad_hook(take)
        elif kind == "tensor":  # LOMO: drops the gradients of those before
            p.register_hook(lambda _: any(map(take, model.parameters())) or None)
        else:
            p._in_backward_optimizers = []
            node = p.view_as(p).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, each=p: take(each))
            p._kept = node  # torch keeps it, too
    assert watched(model, Watch(model, PATHS), "a", "b") == {}


def test_hooks_that_come_later_are_known_from_the_next_watched_step():
    model = Two()
    watch = Watch(model, PATHS)

    def take(p):
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(take)
    assert watched(model, watch, "a") == {}  # nothing is known
    assert set(watched(model, watch, "a")) == {"vision"}


def test_what_is_frozen_is_not_counted():
    model = Two()
    model.b.requires_grad_(False)
    model.a(torch.ones(1, 2)).sum().backward()  # its gradients stay
    watch = Watch(model, PATHS)
    watch.before(("image",))
    model.a(torch.ones(1, 2)).sum().backward()
    found = watch.after()
    assert (found.unreached, found.trainable) == ({}, {"llm": 2})


def test_what_was_frozen_in_the_step_is_not_missed():
    model = Two()
    watch = Watch(model, PATHS)
    watch.before(("image",))
    model.b.requires_grad_(False)
    model.a(torch.ones(1, 2)).sum().backward()
    found = watch.after()
    assert (found.unreached, found.trainable) == ({}, {"llm": 2})
