"""Which towers train, seen through optimizers of other kinds: closures, two backwards a step, steps
that a GradScaler leaves out, a language model alone."""

from __future__ import annotations

import pytest
import torch

from tests.plugins.test_gradient_watch import Two, blind, handles, watched
from vlmguard_torch import stepping
from vlmguard_torch.watch.gradients import Watch


class Judge:
    """What a watch says at each effective step."""

    def __init__(self, optimizer, watch):
        self.watch, self.said = watch, []
        self.at = stepping.AtStep(optimizer, self.step)

    def step(self):
        found = self.watch.end()
        self.said.append({**found.unreached, **found.wiring} if found is not None else {})


def lbfgs(model, optimizer, n):
    def closure():
        optimizer.zero_grad()
        loss = model(image=n % 3 > 0).square()
        loss.backward()
        return loss

    optimizer.step(closure)


def sam(model, optimizer, n):
    """A climb along the gradient, a second backward there, and the step from where it was."""
    model(image=n % 3 > 0).backward()
    moved = [(p, p.grad.clone()) for p in model.parameters() if p.grad is not None]
    with torch.no_grad():
        for p, grad in moved:
            p.add_(grad, alpha=0.05)
    optimizer.zero_grad()
    model(image=n % 3 > 0).backward()
    with torch.no_grad():
        for p, grad in moved:
            p.sub_(grad, alpha=0.05)
    optimizer.step()
    optimizer.zero_grad()


SCALER = torch.amp.GradScaler("cpu", init_scale=4.0)


def scaled(model, optimizer, n):
    """Two steps of three overflow, and are left out."""
    loss = model(image=n % 2 > 0)
    SCALER.scale(loss * (float("inf") if n % 3 else 1.0)).backward()
    SCALER.step(optimizer)
    SCALER.update()
    optimizer.zero_grad()


def skipped(model, optimizer, n):
    if n % 2:
        model(image=False).backward()
    optimizer.step()
    optimizer.zero_grad()


OPTIMIZERS = {"LBFGS": torch.optim.LBFGS, "SAM": torch.optim.SGD, "GradScaler": torch.optim.SGD}
STEPS = {"LBFGS": lbfgs, "SAM": sam, "GradScaler": scaled}


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("how", STEPS)
def test_healthy_training(how, stays):
    model = Two()
    optimizer, watch = watched(model, OPTIMIZERS[how](model.parameters(), 0.01), stays=stays)
    judge = Judge(optimizer, watch)
    for n in range(18):
        STEPS[how](model, optimizer, n)
    assert len(judge.said) == (6 if how == "GradScaler" else 18)
    assert not any(judge.said)


@pytest.mark.parametrize("how", STEPS)
def test_a_tower_that_is_cut_is_told_all_the_same(how):
    model = Two()
    blind(model.b)
    optimizer, watch = watched(model, OPTIMIZERS[how](model.parameters(), 0.01))
    judge = Judge(optimizer, watch)
    for n in range(1, 19):
        STEPS[how](model, optimizer, n)
    assert {"vision": "cut"} in judge.said


@pytest.mark.parametrize("stays", [True, False])
def test_a_language_model_alone_whose_batches_are_skipped(stays):
    model = Two()
    model.b.requires_grad_(False)
    optimizer = torch.optim.SGD(model.a.parameters(), 0.1)
    judge = Judge(optimizer, Watch(model, {"llm": ("a",)}, stepping.held(optimizer), stays=stays))
    for n in range(18):
        skipped(model, optimizer, n)
    assert len(judge.said) == 18
    assert not any(judge.said)


def test_a_skipped_batch_where_a_missing_gradient_would_end_the_run():
    """DDP that does not look for unused parameters waits for those of batches that reach it."""
    model = Two()
    optimizer, watch = watched(model, fails=True)
    judge = Judge(optimizer, watch)
    for n in range(18):
        if n % 2:
            model().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert not any(judge.said)
    watch.close()
    assert not handles(model)
