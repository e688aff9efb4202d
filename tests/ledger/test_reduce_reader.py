"""Station reduce in one process: windows that are right, and some that are not."""

from __future__ import annotations

import pytest
import torch

from tests.ledger.sums import Tied, batch, pages, said, sgd, verdicts


def plain(model, optimizer, number):
    optimizer.zero_grad()
    model(x=batch(model)).backward()
    optimizer.step()


def accumulated(parts, to_none=True):
    def body(model, optimizer, number):
        optimizer.zero_grad(set_to_none=to_none)
        for _ in range(parts):
            (model(x=batch(model)) / parts).backward()
        optimizer.step()

    return body


def sam(to_none):
    def body(model, optimizer, number):
        optimizer.zero_grad(set_to_none=to_none)
        model(x=batch(model)).backward()
        moves = [p.grad * 0.1 for p in model.parameters()]
        torch._foreach_add_([p.data for p in model.parameters()], moves)
        optimizer.zero_grad(set_to_none=to_none)
        model(x=batch(model)).backward()
        torch._foreach_sub_([p.data for p in model.parameters()], moves)
        optimizer.step()

    return body


def two_backwards(model, optimizer, number):
    optimizer.zero_grad()
    model(x=batch(model)).backward()
    (model(x=batch(model)) * 0.3).backward()
    optimizer.step()


def stepped_twice(model, optimizer, number):
    plain(model, optimizer, number)
    optimizer.step()


def skipped(model, optimizer, number):
    """A batch whose gradient is thrown away."""
    model(x=batch(model)).backward()
    plain(model, optimizer, number)


def text_alone(model, optimizer, number):
    optimizer.zero_grad()
    model(x=batch(model), image=number % 2 == 0).backward()
    optimizer.step()


def images_skipped(to_none, late):
    """A batch with images whose gradient is thrown away, and one of text that is stepped on."""

    def body(model, optimizer, number):
        model(x=batch(model)).backward()
        if not late:
            optimizer.zero_grad(set_to_none=to_none)
        loss = model(x=batch(model), image=False)
        if late:
            optimizer.zero_grad(set_to_none=to_none)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return body


def clipped(model, optimizer, number):
    optimizer.zero_grad()
    (model(x=batch(model)) * 100).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.37)
    optimizer.step()


def scaled(scaler, **how):
    def body(model, optimizer, number):
        optimizer.zero_grad()
        scaler.scale(model(x=batch(model))).backward()
        if how.get("clip"):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()

    return body


def scaler():
    return torch.amp.GradScaler("cpu", init_scale=1024.0)


def hooked(model, optimizer, number):
    """A user's hook that halves stands before ours, one that is put on in the window behind."""
    if number == 0:
        model.head.weight.register_hook(lambda gradient: gradient / 2)
        model.model[0].weight.register_hook(lambda gradient: gradient / 2)
    plain(model, optimizer, number)


def clamp(p):
    p.grad.clamp_(-1e-4, 1e-4)


def after_accumulation(model, optimizer, number):
    if number == 0:
        model.head.weight.register_post_accumulate_grad_hook(clamp)
    plain(model, optimizer, number)


def given_back(model, optimizer, number):
    """Taken away after the first part and given back, changed, before the step."""
    optimizer.zero_grad()
    model(x=batch(model)).backward()
    kept = {p: p.grad for p in model.parameters()}
    optimizer.zero_grad()
    model(x=batch(model)).backward()
    for p, first in kept.items():
        p.grad = p.grad + (3 + first.numel() % 7 * 3) * first.roll(1)
    optimizer.step()


HEALTHY = {
    "plain": (plain, {}),
    "one part, zeros": (accumulated(1, False), {}),
    "accumulation 4": (accumulated(4), {}),
    "accumulation 4, zeros": (accumulated(4, False), {}),
    "accumulation 4, bf16": (accumulated(4), {"dtype": torch.bfloat16}),
    "accumulation 256, bf16": (accumulated(256), {"dtype": torch.bfloat16, "windows": 2}),
    "SAM": (sam(True), {}),
    "SAM, zeros": (sam(False), {}),
    "two backwards": (two_backwards, {}),
    "a second step": (stepped_twice, {}),
    "a batch skipped": (skipped, {}),
    "text alone at times": (text_alone, {}),
    "images skipped": (images_skipped(True, False), {}),
    "images skipped, zeros": (images_skipped(False, False), {}),
    "images skipped, behind the forward": (images_skipped(True, True), {}),
    "images skipped, zeros behind the forward": (images_skipped(False, True), {}),
    "tied": (plain, {"net": Tied}),
    "clipped to a norm, known": (clipped, {"max_norm": 0.37}),
    "clipped to a norm, unknown": (clipped, {}),
    "scaler": (scaled(scaler()), {}),
    "scaler and clipping": (scaled(scaler(), clip=True), {}),
    "scaler, fused": (
        scaled(scaler()),
        {"optimizer": lambda model: torch.optim.AdamW(model.parameters(), fused=True)},
    ),
    "a user's hook": (hooked, {}),
    "given back, changed": (given_back, {}),
}


@pytest.mark.parametrize("body", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_window_balances(body):
    found = verdicts(body[0], **body[1])
    assert "differs" not in {each.state for each in found}
    assert found[0].state == "balances"
    assert not [each for each in said(found) if "warning" in each]


UNREMARKABLE = [name for name in HEALTHY if "hook" not in name and "changed" not in name]


@pytest.mark.parametrize("name", UNREMARKABLE)
def test_and_nothing_is_said_of_it(name):
    body, how = HEALTHY[name]
    notes = said(verdicts(body, **how))
    assert notes == (["VG641 note"] if name.endswith("unknown") else [])[: len(notes)]


def changed(change):
    def body(model, optimizer, number):
        optimizer.zero_grad()
        model(x=batch(model)).backward()
        for p in model.parameters():
            p.grad.copy_(change(p))
        optimizer.step()

    return body


MEANT = {
    "by value": changed(lambda p: p.grad.clamp(-1e-3, 1e-3)),
    "noise": changed(lambda p: p.grad + torch.randn_like(p)),
    "decay by hand": changed(lambda p: p.grad + p.detach()),
    "a tensor at a time": changed(lambda p: p.grad / (1 + 100 * p.grad.norm())),
    "after accumulation": after_accumulation,
}


@pytest.mark.parametrize("body", MEANT.values(), ids=MEANT)
def test_what_only_alters_values_is_a_note(body):
    found = verdicts(body)
    assert {each.state for each in found} == {"balances"}
    assert set(said(found)) == {"VG640 note"}


def uncleared(model, optimizer, number):
    model(x=batch(model)).backward()
    optimizer.step()


def test_gradients_that_are_not_cleared_are_told_since_their_step():
    found = verdicts(uncleared)
    assert said(found) == ["VG642 warning"] * 2
    assert "since step 1" in found[1].entries[0].why
    assert found[2].entries[0].since == 1


WRONG = {
    "negated": (changed(lambda p: -p.grad), "VG641", "negated"),
    "an earlier step": (None, "VG640", "earlier step"),
    "twice": (
        changed(lambda p: p.grad * (2 if p.dim() == 2 else 1)),
        "VG640",
        "gets the gradient twice",
    ),
}


def stale(model, optimizer, number):
    """The tower keeps its gradient when there are no images."""
    tower = set(model.visual.parameters())
    for p in model.parameters():
        p.grad = p.grad if p in tower and number else None
    model(x=batch(model), image=number == 0).backward()
    optimizer.step()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_gradient_is_told(wrong):
    body, code, words = wrong
    found = verdicts(body or stale)
    assert found[-1].state == "differs"
    assert said(found[-1]) == [f"{code} warning"]
    assert words in found[-1].entries[0].why


def test_divided_by_the_scale_twice():
    scale = scaler()

    def body(model, optimizer, number):
        optimizer.zero_grad()
        scale.scale(model(x=batch(model))).backward()
        scale.unscale_(optimizer)
        for p in model.parameters():
            p.grad /= 1024
        scale.step(optimizer)
        scale.update()

    assert "divided by the loss scale of 1024 twice" in verdicts(body)[0].entries[0].why


def test_what_runs_the_backward_in_its_step_cannot_be_told():
    def body(model, optimizer, number):
        def closure():
            optimizer.zero_grad()
            loss = model(x=torch.ones(2, 24))
            loss.backward()
            return loss

        optimizer.step(closure)

    for each in verdicts(body, optimizer=lambda model: torch.optim.LBFGS(model.parameters())):
        assert (each.state, each.reason) == (
            "cannot tell",
            "the optimizer's step runs the backward itself",
        )


def test_what_is_not_finite_cannot_be_told():
    found = verdicts(changed(lambda p: p.grad * torch.nan))
    assert {(each.state, each.reason) for each in found} == {
        ("cannot tell", "gradients are not finite")
    }


def test_a_sparse_gradient_is_left_out():
    class Sparse(Tied):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(9, 24, sparse=True)

    found = verdicts(plain, net=Sparse)
    assert found[0].state == "balances"
    assert found[0].shown["tensors"] == 3


@pytest.mark.parametrize("name", HEALTHY)
def test_not_a_bit_differs(name):
    body, how = HEALTHY[name]
    states = []
    for watched in (True, False):
        model, _, _ = pages(_fresh(name, body), watched=watched, **how)
        states.append([*model.parameters(), torch.get_rng_state()])
    assert all(map(torch.equal, *states))


def _fresh(name, body):
    """A scaler keeps what it counted."""
    return scaled(scaler(), clip="clipping" in name) if name.startswith("scaler") else body


def test_all_hooks_are_off_afterwards():
    model, _, found = pages(plain, optimizer=sgd)
    assert len(found) == 3
    assert not any(p._backward_hooks or p._post_accumulate_grad_hooks for p in model.parameters())
    assert not any(m._forward_pre_hooks for m in model.modules())
