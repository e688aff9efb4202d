"""The update reader on real optimizers in one process: what is told, and what is healthy."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.plugins.ledger_toys import Toy, batch, subject
from vlmguard_torch.ledger.readers import samples
from vlmguard_torch.ledger.readers.ranks import Ranks, checksum
from vlmguard_torch.ledger.readers.update import Update
from vlmguard_torch.ledger.watcher import Watcher


def told(model, optimizer, steps=3, each=None, micro=1):
    """What update says of each window; ``each(n)`` runs between backward and step."""
    found = []
    Watcher(subject(model, optimizer), [Update], on_verdicts=lambda _, v: found.extend(v))
    for n in range(steps):
        for part in range(micro):
            model(**batch(n * 7 + part)).backward()
        if each is not None:
            each(n)
        optimizer.step()
        optimizer.zero_grad()
    return found


def codes(found):
    return [[(entry.code, entry.level) for entry in verdict.entries] for verdict in found]


OPTIMIZERS = {
    "adamw": lambda ps: torch.optim.AdamW(ps, 1e-3),
    "adam, small": lambda ps: torch.optim.Adam(ps, 1e-8),
    "adam, large eps": lambda ps: torch.optim.Adam(ps, 5e-7, eps=1e2),
    "sgd": lambda ps: torch.optim.SGD(ps, 1e-2, momentum=0.9),
    "sgd, small": lambda ps: torch.optim.SGD(ps, 1e-12),
    "lr 0": lambda ps: torch.optim.AdamW(ps, 0.0),
    "a tensor as rate": lambda ps: torch.optim.AdamW(ps, torch.tensor(1e-3), foreach=False),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, 1e-2),
    "fused": lambda ps: torch.optim.AdamW(ps, 1e-3, fused=True),
    "radam": lambda ps: torch.optim.RAdam(ps, 1e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_healthy_optimizers(name):
    model = Toy()
    optimizer = OPTIMIZERS[name](model.parameters())
    found = told(model, optimizer, 4)
    assert codes(found) == [[], [], []]
    assert {each.state for each in found} == {"balances"}


def test_rates_by_tower():
    model = Toy()
    groups = [
        {"params": [*model.visual.parameters()], "lr": 2e-6},
        {"params": [*model.merger.parameters()], "lr": 1e-5},
        {"params": [*model.embed.parameters(), *model.layer.parameters(), model.lm_head.weight]},
    ]
    found = told(model, torch.optim.AdamW(groups, 1e-5))
    assert found[0].shown["rates"] == "vision 2e-06, aligner 1e-05, llm 1e-05"
    assert found[0].shown["towers"]["vision"]["moved"] == 2


def test_a_schedule_that_starts_at_zero():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: n / 2)
    found = told(model, optimizer, 3, lambda n: schedule.step() if n else None)
    assert codes(found) == [[], [], []]
    assert found[-1].shown["schedule"] == [0.0, 5e-4, 1e-3]


def test_a_weight_that_is_put_back_is_told():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    kept = model.layer.weight.detach().clone()
    optimizer.register_step_post_hook(lambda *_: model.layer.weight.data.copy_(kept))
    found = told(model, optimizer)
    assert codes(found)[0] == [("VG651", "warning")]
    assert found[0].entries[0].what == "layer.weight"


def test_an_optimizer_that_does_nothing_is_told():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    kept = copy.deepcopy(model.state_dict())
    optimizer.register_step_post_hook(lambda *_: model.load_state_dict(kept) and None)
    found = told(model, optimizer)
    assert codes(found)[0] == [("VG651", "warning")]
    assert found[0].entries[0].why.startswith("no weight moved in the step")


@pytest.mark.parametrize(("rate", "warned"), [(1e-7, True), (1e-2, False)])
def test_updates_that_round_to_nothing(rate, warned):
    model = Toy().bfloat16()
    model.visual.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.0)
    found = []
    Watcher(subject(model, optimizer), [Update], on_verdicts=lambda _, v: found.extend(v))
    for n in range(3):
        given = batch(n)
        given["pixel_values"] = given["pixel_values"].bfloat16()
        model(**given).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [("VG651", "warning") in each for each in codes(found)] == [warned] * 3


def test_hooks_of_the_users_that_take_a_gradient_away_are_no_error():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    Watcher(subject(model, optimizer), [Update], on_verdicts=lambda _, v: found.extend(v))

    def take(*_):
        model.layer.weight.grad.zero_()

    optimizer.register_step_pre_hook(take)
    model(**batch()).backward()
    optimizer.step()
    assert found[0].entries == ()


def test_what_no_optimizer_holds_is_told():
    model = Toy()
    rest = [p for name, p in model.named_parameters() if not name.startswith("visual")]
    found = told(model, torch.optim.AdamW(rest, 1e-3))
    [entry] = found[0].entries
    assert (entry.code, entry.what) == ("VG650", "2 of 2 vision tensors")


def test_two_optimizers_of_one_model():
    model = Toy()
    sees = [*model.visual.parameters(), *model.merger.parameters()]
    rest = [p for p in model.parameters() if all(p is not q for q in sees)]
    one, two = torch.optim.AdamW(sees, 1e-3), torch.optim.SGD(rest, 1e-2)
    said = []
    for each in (one, two):
        Watcher(subject(model, each), [Update], on_verdicts=lambda _, v: said.extend(v))
    for n in range(3):
        model(**batch(n)).backward()
        for each in (one, two):
            each.step()
        for each in (one, two):
            each.zero_grad()
    assert len(said) == 6
    assert codes(said) == [[]] * 6


def test_an_optimizer_of_another_model_is_told():
    model = Toy()
    found = told(model, torch.optim.AdamW(copy.deepcopy(model).parameters(), 1e-3))
    assert codes(found)[0] == [("VG650", "warning")]
    assert "once the model is final" in found[0].entries[0].advice


def test_frozen_weights_that_momentum_moves():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    found = []

    def freeze(n):
        if n == 1:
            for p in model.visual.parameters():
                p.requires_grad_(False)
                p.grad.zero_()

    Watcher(subject(model, optimizer), [Update], on_verdicts=lambda _, v: found.extend(v))
    for n in range(3):
        model(**batch(n)).backward()
        freeze(n)
        optimizer.step()
        optimizer.zero_grad(set_to_none=n > 1)
    assert [("VG652", "warning") in each for each in codes(found)] == [False, True, True]
    assert found[1].entries[0].what == "2 of 2 vision tensors"


def test_staged_freezing_and_averages_of_the_users_are_no_error():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    mean = copy.deepcopy(model)

    def each(n):
        model.visual.requires_grad_(n == 0)
        with torch.no_grad():
            for p, q in zip(model.parameters(), mean.parameters(), strict=True):
                q.lerp_(p, 0.1)

    model.merger.requires_grad_(False)
    assert codes(told(model, optimizer, 3, each)) == [[], [], []]


def test_an_average_that_is_kept_in_a_step_hook_is_only_shown():
    model = Toy()
    model.merger.requires_grad_(False)
    held = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(held, 1e-3)
    optimizer.register_step_post_hook(lambda *_: model.merger.weight.data.mul_(0.9))
    assert codes(told(model, optimizer, 1)) == [[("VG652", "note")]]


def test_weights_that_ddp_leaves_to_each_rank_are_not_compared():
    model = Toy()
    model._ddp_params_and_buffers_to_ignore = ["merger.weight"]
    found = subject(model, torch.optim.SGD(model.parameters(), 0.1), world=2, strategy="ddp")
    names = [found.account.tensors[n].name for n in Ranks(found).page()["index"]]
    assert "merger.weight" not in names
    assert "merger.bias" in names


def test_a_tie_that_breaks_is_told():
    model = Toy(tied=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def untie(n):
        if n == 1:
            model.lm_head.weight = torch.nn.Parameter(model.embed.weight.detach().clone())

    found = told(model, optimizer, 3, untie)
    assert codes(found)[0] == []
    assert ("VG652", "warning") in codes(found)[1]


@pytest.mark.parametrize(("copied", "expected"), [(True, True), (False, False)])
def test_a_copy_of_what_the_class_ties_is_told_before_it_parts(copied, expected):
    model = Toy(tied=not copied)
    model.all_tied_weights_keys = {"lm_head.weight": "embed.weight", "gone.weight": "embed.weight"}
    if copied:
        model.lm_head.weight = torch.nn.Parameter(model.embed.weight.detach().clone())
    found = told(model, torch.optim.AdamW(model.parameters(), 1e-3), 3)
    assert (("VG652", "warning") in codes(found)[0]) is expected


def test_two_that_a_checkpoint_has_apart_are_no_error():
    model = Toy()
    model.all_tied_weights_keys = {"lm_head.weight": "embed.weight"}
    found = told(model, torch.optim.AdamW(model.parameters(), 1e-3), 3)
    assert not [each for each in codes(found) if each]


def test_a_step_that_a_fused_optimizer_leaves_out():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    found = []
    Watcher(subject(model, optimizer), [Update], on_verdicts=lambda _, v: found.extend(v))
    for n in range(3):
        loss = scaler.scale(model(**batch(n)))
        (loss * (float("inf") if n == 1 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert [each.entries for each in found] == [()] * len(found)
    assert found[-1].state == "balances"


def test_samples_are_views_at_fixed_places():
    weight = torch.arange(4096.0).reshape(64, 64)
    found = samples.sample(weight)
    assert found.numel() == samples.COUNT
    assert found.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
    assert len({int(each) % 64 for each in found}) > 32, "many columns"
    last = torch.zeros(2, 8, 4, 4).to(memory_format=torch.channels_last)
    assert samples.sample(last) is not None
    assert samples.sample(torch.zeros(8, 8)[:, :3]) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
def test_a_checksum_is_exact_in_any_order(dtype):
    made = torch.Generator().manual_seed(0)
    weight = (torch.rand(1000, generator=made) * 100).to(dtype)
    other = weight.clone()
    other[7] += 1
    assert checksum(weight) == checksum(weight.flip(0)) == checksum(weight.reshape(10, 100).T)
    assert checksum(weight) != checksum(other)
