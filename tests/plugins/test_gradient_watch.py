"""Which towers an optimizer trains, seen over whole windows from one of its steps to the next."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from vlmguard_torch import stepping
from vlmguard_torch.watch.gradients import AGREE, LIMIT, Watch

PATHS = {"llm": ("a",), "vision": ("b",)}


class Two(torch.nn.Module):
    """A language model and a tower, both trainable."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        self.b = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))

    def forward(self, image=True, detach=False):
        x = torch.ones(1, 2)
        seen = self.b(x) if image else x
        return self.a(seen.detach() if detach else seen).sum()


def blind(module):
    """Its forward runs without gradients."""
    module.forward = torch.no_grad()(module.forward)


def watched(model, optimizer=None, **told):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    return optimizer, Watch(model, PATHS, stepping.held(optimizer), **told)


def dark(model, reached=False):
    """A loss whose tower runs without gradients; ``reached``: what it returns needs one again."""

    def loss():
        with torch.no_grad():
            seen = model.b(torch.ones(1, 2))
        return model.a(seen.requires_grad_(reached)).sum()

    return loss


def skipped(model):
    """A batch is looked at without gradients, and takes no part in the loss."""

    def loss():
        with torch.no_grad():
            model()
        return _nothing()

    return loss


def _nothing():
    return torch.zeros((), requires_grad=True)


def window(model, watch, optimizer, *losses):
    """Micro-batches, then the optimizer's step; what was found."""
    for loss in losses:
        (loss() if callable(loss) else model(**loss)).backward()
    found = watch.end()
    optimizer.step()
    optimizer.zero_grad()
    return found


def wirings(model, number=10, kwargs=None, **told):
    """What is said in each of so many windows."""
    optimizer, watch = watched(model, **told)
    found = [window(model, watch, optimizer, kwargs or {}) for _ in range(number)]
    watch.close()
    assert not handles(model)
    return [dict(each.wiring) if each is not None else {} for each in found]


def handles(model):
    on_tensors = [p for p in model.parameters() if p._post_accumulate_grad_hooks]
    return on_tensors + [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]


@pytest.mark.parametrize("stays", [True, False])
def test_a_tower_whose_forward_cuts_the_gradient_is_told_at_the_second_step(stays):
    model = Two()
    blind(model.b)
    assert wirings(model, 4, stays=stays) == [{}, {"vision": "cut"}, {}, {}]


def test_a_tower_in_which_blocks_lose_the_gradient_is_told():
    """Its output gets one, from what is not its own: reentrant blocks without input gradients."""
    model = Two()
    optimizer, watch = watched(model)
    bias = torch.nn.Parameter(torch.zeros(2))
    inner = model.b.forward
    model.b.forward = lambda x: checkpoint(inner, x, use_reentrant=True) + bias
    found = [window(model, watch, optimizer, {}) for _ in range(2)]
    assert [dict(each.wiring) for each in found] == [{}, {"vision": "cut"}]


def test_a_tower_that_is_left_out_for_the_first_steps_is_told_late_and_does_not_end_the_run():
    """fairseq's ``freeze_finetune_updates``: a forward of its own that has ``with no_grad()``."""
    model = Two()

    def forward(x, own=model.b.forward):
        with torch.no_grad():
            return own(x)

    model.b.forward = forward
    found = [(n, told) for n, told in enumerate(wirings(model, 12), 1) if told]
    assert found == [(AGREE, {"vision": "no_grad"})]


def test_a_tower_that_cuts_what_its_modules_made_is_told_late():
    """A forward that drops features at random looks the same for some windows."""
    model = Two()
    inner = model.b.forward
    model.b.forward = lambda x: inner(x).detach()
    found = [(n, told) for n, told in enumerate(wirings(model, 10), 1) if told]
    assert found == [(AGREE, {"vision": "detached"})]


DROPS = {
    "behind its modules": lambda tower, x: torch.zeros_like(tower.inner(x)),
    "before its modules": lambda tower, x: torch.zeros(1, 2),
    "detached": lambda tower, x: tower.inner(x).detach(),
}
TOWERS = {
    "of modules": lambda: Two().b,
    "one module": lambda: torch.nn.Linear(2, 2),
    "a module inside": lambda: torch.nn.Sequential(torch.nn.Linear(2, 2)),
}


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("tower", TOWERS)
@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_a_tower_that_drops_its_features_at_random(stays, reference, tower, drop):
    """``reference``: the same model runs without gradients first, as in DPO."""
    for seed in range(60):
        model, draw = Two(), random.Random(seed)
        model.b = TOWERS[tower]()
        drops = model.b[0] if tower == "a module inside" else model.b
        drops.inner = drops.forward
        drops.forward = lambda x, drops=drops, draw=draw: (
            drop(drops, x)
            if torch.is_grad_enabled() and draw.random() < 0.3
            else drops.inner(x)
        )

        def both(model=model):
            if reference:
                with torch.no_grad():
                    model()
            return model()

        optimizer, watch = watched(model, stays=stays)
        found = [window(model, watch, optimizer, both) for _ in range(10)]
        assert not any(each is not None and each.wiring for each in found), seed


def test_blocks_without_gradients_behind_an_input_that_needs_one():
    """transformers' `enable_input_require_grads` sets it on the output of the first layer."""
    model = Two()
    blind(model.b)
    first = model.b[0].forward
    model.b[0].forward = lambda x: first(x).requires_grad_(True)
    assert wirings(model, 3) == [{}, {"vision": "cut"}, {}]


def test_a_skipped_batch_between_others_does_not_hide_a_tower_that_is_cut():
    model = Two()
    inner = model.b.forward
    model.b.forward = lambda x: inner(x).detach()

    optimizer, watch = watched(model)
    losses = [skipped(model) if n == 6 else {} for n in range(1, 20)]
    found = [window(model, watch, optimizer, loss) for loss in losses]
    told = [n for n, each in enumerate(found, 1) if each is not None and each.wiring]
    assert told == [6 + AGREE]


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_that_is_looked_at_without_gradients_and_skipped(stays, fails):
    model = Two()
    optimizer, watch = watched(model, stays=stays, fails=fails)

    for n in range(12):
        text = [{"image": False}] if n % 3 == 2 and not fails else []  # DDP would end itself
        losses = [{} if n in (6, 9) else skipped(model), *text]
        found = window(model, watch, optimizer, *losses)
        assert found is None or not (found.wiring or found.unreached), n


def test_a_tower_under_no_grad_ends_ddp_where_others_train():
    model = Two()

    optimizer, watch = watched(model, fails=True)
    assert dict(window(model, watch, optimizer, dark(model)).wiring) == {"vision": "no_grad"}


def test_a_model_of_which_nothing_trains_is_told_late():
    """Only the tower is held. The loss needs a gradient because of an input."""
    model = Two()
    model.a.requires_grad_(False)

    optimizer, watch = watched(model)
    found = [window(model, watch, optimizer, dark(model, reached=True)) for _ in range(9)]
    told = [n for n, each in enumerate(found, 1) if each is not None and each.wiring]
    assert told == [AGREE]


def test_a_tower_under_no_grad_and_one_that_is_dropped():
    model = Two()

    optimizer, watch = watched(model)
    found = [window(model, watch, optimizer, dark(model)) for _ in range(AGREE)]
    assert [n for n, f in enumerate(found, 1) if f.wiring] == [AGREE]
    assert found[-1].wiring == {"vision": "no_grad"}
    assert found[-1].unreached["vision"][0] == "b.0.weight"
    told = wirings(Two(), 10, {"detach": True})
    assert [n for n, each in enumerate(told, 1) if each] == [AGREE]
    assert told[7] == {"vision": "dropped"}


HEALTHY = {
    "rows of text alone": lambda model, n: [{"image": False}],
    "mixed micro-batches": lambda model, n: [{"image": True}, {"image": False}],
    "text first, an image late": lambda model, n: [{"image": n > 5}],
    "a batch skipped": lambda model, n: [{} if n % 2 else _nothing],
    "alternating losses": lambda model, n: [{} if n % 2 else {"image": False}],
    "features dropped at times": lambda model, n: [{"detach": n % 3 > 0}],
}


@pytest.mark.parametrize("losses", HEALTHY.values(), ids=HEALTHY)
@pytest.mark.parametrize("stays", [True, False])
def test_healthy_windows(losses, stays):
    model = Two()
    optimizer, watch = watched(model, stays=stays)
    for n in range(8):
        found = window(model, watch, optimizer, *losses(model, n))
        assert found is None or not (found.wiring or found.unreached)


def take(p):
    p.grad = None


TAKERS = {
    "dropped before the step": lambda model: None,
    "post": lambda model: [p.register_post_accumulate_grad_hook(take) for p in model.parameters()],
    "LOMO": lambda model: [
        p.register_hook(lambda _: any(map(take, model.parameters())) or None)
        for p in model.parameters()
    ],
    "torch": lambda model: [setattr(p, "_in_backward_optimizers", []) for p in model.parameters()],
}


@pytest.mark.parametrize("how", TAKERS)
def test_a_gradient_that_was_made_and_taken_away_is_none_that_is_missing(how):
    model = Two()
    TAKERS[how](model)
    optimizer, watch = watched(model)
    for _ in range(5):
        model().backward()
        for p in model.parameters():
            take(p)
        found = watch.end()
        assert found is None or not found.wiring
        optimizer.step()


def test_gradients_by_another_way_than_backward():
    model = Two()
    optimizer, watch = watched(model)
    for _ in range(3):
        every = list(model.parameters())
        for p, grad in zip(every, torch.autograd.grad(model(), every), strict=True):
            p.grad = grad
        found = watch.end()
        assert found is None or not found.wiring
        optimizer.zero_grad()


def test_a_window_that_was_not_seen_from_its_beginning_is_not_judged():
    model = Two()
    blind(model.b)
    optimizer, watch = watched(model, whole=False)
    found = [window(model, watch, optimizer, {}) for _ in range(3)]
    assert [f and dict(f.wiring) for f in found] == [None, {}, {"vision": "cut"}]


def test_only_what_the_optimizer_holds_is_missed():
    model = Two()
    blind(model.b)
    assert wirings(model, 3, optimizer=torch.optim.SGD(model.a.parameters(), 0.1)) == [{}] * 3
    other = torch.optim.SGD(Two().parameters(), 0.1)
    assert not Watch(model, PATHS, stepping.held(other)).towers
    assert not handles(model)


def test_parameters_that_were_replaced_are_nobodys():
    """The optimizer still holds the old ones, which no forward uses."""
    model = Two()
    optimizer, watch = watched(model)
    for module in model.b:
        module.weight = torch.nn.Parameter(module.weight.detach().clone())
        module.bias = torch.nn.Parameter(module.bias.detach().clone())
    found = [window(model, watch, optimizer, {}) for _ in range(3)]
    assert not any(f.wiring for f in found if f is not None)


def test_what_is_frozen_and_thawed_in_turns_is_not_missed():
    model = Two()
    optimizer, watch = watched(model)
    for n in range(8):
        model.a.requires_grad_(n % 2 == 0)
        model.b.requires_grad_(n % 2 == 1)
        found = window(model, watch, optimizer, {})
        assert found is None or not (found.wiring or found.unreached)


def test_single_parameters_that_two_steps_miss():
    model = Two()
    model.a.spare = torch.nn.Parameter(torch.ones(2))
    optimizer, watch = watched(model, untrained=("spare",))
    found = [window(model, watch, optimizer, {}) for _ in range(3)]
    assert [f and dict(f.unreached) for f in found] == [{}, {"llm": ("a.spare",)}, None]
    assert (found[1].trainable["llm"], found[1].by_design) == (5, ("a.spare",))


def test_a_parameter_of_no_module_may_wait_for_other_rows():
    """LLaVA-NeXT's newline between images, with the language model but in none of its modules."""
    model = Two()
    model.newline = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    paths = {"llm": ("a", "newline"), "vision": ("b",)}
    watch = Watch(model, paths, stepping.held(optimizer))
    found = [window(model, watch, optimizer, {}) for _ in range(4)]
    assert not any(each.unreached for each in found if each is not None)


@pytest.mark.parametrize("stays", [True, False])
def test_the_part_of_a_tower_that_trains_may_be_for_rare_rows(stays):
    """The rest is frozen, so that other rows leave an output without a gradient."""
    model = Two()
    model.b[0].requires_grad_(False)
    model.b.forward = lambda x: model.b[1](model.b[0](x)) if rare else model.b[0](x)
    optimizer, watch = watched(model, stays=stays)
    for n in range(10):
        rare = n in (5, 6)
        found = window(model, watch, optimizer, {})
        assert found is None or not (found.wiring or found.unreached)
    watch.close()
    assert not handles(model)


def test_the_part_of_a_tower_that_trains_and_is_cut():
    model = Two()
    model.b[0].requires_grad_(False)
    model.b[1] = torch.nn.Sequential(model.b[1])
    blind(model.b[1])
    assert wirings(model, 4) == [{}, {"vision": "cut"}, {}, {}]


def test_a_frame_of_the_loop_keeps_nothing():
    """Reading a frame's locals keeps them until the frame returns."""
    model = Two()
    _, watch = watched(model)
    kept = weakref.ref(out := model())
    with torch.no_grad():
        model()
    out.backward()
    watch.end()
    with torch.no_grad():
        model()  # asked about its modules from the second window on
    del out
    gc.collect()
    assert kept() is None


def test_evaluation_is_no_window_without_gradients():
    model = Two()
    optimizer, watch = watched(model)
    for _ in range(4):
        model.eval()
        with torch.no_grad():
            model()
        model.train()
        found = window(model, watch, optimizer, {"image": False})
        assert found is None or not found.wiring


def test_a_tower_left_out_after_it_trained_is_stale_in_whole_windows_alone():
    model = Two()
    optimizer, watch = watched(model, stays=False, stale=True)
    text, image = {"image": False}, {}
    windows = [[image], [image], [image, text], [text, image], [text, text], [image]]
    found = [window(model, watch, optimizer, *each) for each in windows]
    assert [f.stale if f is not None else () for f in found] == [(), (), (), (), ("vision",), ()]
    assert not [p for p in model.parameters() if p._post_accumulate_grad_hooks]


def test_it_lets_go_of_what_trains():
    model = Two()
    wirings(model, 2)
    optimizer, watch = watched(model)
    for _ in range(2):
        window(model, watch, optimizer, {})
    assert not watch.towers
    assert not handles(model)


def test_it_lets_go_of_what_it_cannot_tell():
    model = Two()
    optimizer, watch = watched(model)
    for n in range(LIMIT + 1):
        window(model, watch, optimizer, {"detach": n % 2 > 0} if n % 2 else dark(model))
    assert not watch.towers


def test_hooks_only_on_what_had_no_gradient():
    """A hook on each of 10,000 parameters costs more than a look."""
    model = Two()
    optimizer, watch = watched(model)
    on_tensors = [p for p in model.parameters() if p._post_accumulate_grad_hooks]
    assert not on_tensors
    window(model, watch, optimizer, {"detach": True})
    assert {id(p) for p in model.parameters() if p._post_accumulate_grad_hooks} == {
        id(p) for p in model.b.parameters()
    }
    watch.close()


def test_a_model_is_copied_pickled_and_dropped_as_without_it():
    model = Two()
    watch = Watch(model, PATHS)
    assert copy.deepcopy(model)().isfinite()
    assert pickle.loads(pickle.dumps(model))().isfinite()
    gone = weakref.ref(model.b[0])
    keys = set(model.state_dict())
    assert keys == set(Two().state_dict())
    watch.close()
    del model, watch
    gc.collect()
    assert gone() is None


def test_features_are_saved_without_a_warning(tmp_path, recwarn):
    model = Two()
    watch = Watch(model, PATHS)
    torch.save(model.b(torch.ones(1, 2)), tmp_path / "features")
    assert watch.towers
    assert not [each for each in recwarn if "hook" in str(each.message)]


def test_a_compiled_model_has_the_graphs_that_it_has_without():
    from torch._dynamo.testing import CompileCounter

    def frames(put):
        torch._dynamo.reset()
        model, counter = Two(), CompileCounter()
        watch = Watch(model, PATHS) if put else None
        run = torch.compile(model, backend=counter)
        for n in range(4):
            run(image=n % 2 > 0).backward()
            if watch is not None:
                assert watch.end() is None, "nothing is seen, nothing is said"
        return counter.frame_count, counter.op_count

    assert frames(True) == frames(False)
    model = Two()
    model.b.compile()
    Watch(model, {"vision": ("b",)})
    assert not handles(model)


class Steps:
    """Counts effective steps."""

    def __init__(self, optimizer):
        self.number = 0
        self.at = stepping.AtStep(optimizer, self.step)

    def step(self):
        self.number += 1


def test_a_step_is_what_moves_the_weights():
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps = Steps(optimizer)
    optimizer.step()
    assert steps.number == 1
    inside = []

    def closure():
        inside.append(steps.number)
        return model()

    optimizer.step(closure)
    assert (inside, steps.number) == ([1], 2), "after the backwards inside"
    steps.at.close()
    optimizer.step()
    assert steps.number == 2


def test_what_an_optimizer_holds_behind_its_wrappers():
    model, extra = Two(), Two()
    inner = torch.optim.SGD(model.parameters(), 0.1)

    class Zero:  # as DeepSpeed's: flat parts in its groups, the model's parameters beside them
        optimizer = None

        def __init__(self):
            self.optimizer, self.bit16_groups = inner, [list(extra.parameters())]
            self.param_groups = inner.param_groups

    ours = {id(p) for p in (*model.parameters(), *extra.parameters())}
    assert stepping.held(Zero()) == ours


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_long_runs_with_rare_rows_are_never_stopped(micro_batches):
    """Rows of text alone, images dropped inside forward: 40 steps each, in eight ranks' windows."""
    draw = random.Random(micro_batches)
    for share in (0.05, 0.3):
        for _rank in range(4):
            model = Two()
            optimizer, watch = watched(model)
            for _ in range(40):
                rows = [{"image": draw.random() >= share} for _ in range(micro_batches)]
                found = window(model, watch, optimizer, *rows)
                assert found is None or not (found.wiring or found.unreached)
