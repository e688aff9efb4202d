"""The watcher: which windows its readers see, what it hands on, and that it changes and holds
nothing."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch

from tests.plugins.ledger_toys import Counts, Toy, batch, step, subject
from vlmguard.ledger.when import When
from vlmguard_torch.ledger import watcher
from vlmguard_torch.ledger.watcher import Watcher


def made(model, optimizer, **more):
    pages = []
    return pages, Watcher(subject(model, optimizer), [Counts], pages.append, **more)


def run(number, model=None, optimizer=None, each=lambda n: {}, **more):
    model = model or Toy()
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    pages, found = made(model, optimizer, **more)
    for n in range(number):
        step(model, optimizer, n, **each(n))
    return pages, found, model, optimizer


def test_readers_see_each_window_from_its_first_forward_to_the_step():
    pages, *_ = run(2, each=lambda n: {"micro": 2})
    calls = ["open", "batch", "batch", "before", "after"]
    assert [page["update"]["calls"] for page in pages] == [calls, calls]
    told = [(page["window"], page["step"], page["micro"]) for page in pages]
    assert told == [(0, 1, 2), (1, 2, 2)]
    assert pages[0]["update"]["sums"] == [[0, 1], [2, 3]]
    assert pages[0]["kinds"] == ["image"]


def test_windows_are_watched_as_their_choice_says():
    pages, *_ = run(12, when=When("every 5"))
    assert [page["window"] for page in pages] == [0, 1, 2, 5, 10]


def test_a_new_kind_of_row_has_its_window_watched():
    pages, *_ = run(8, each=lambda n: {"image": n % 5 != 4}, when=When("first"))
    assert [(page["window"], page["kinds"]) for page in pages][3:] == [(4, ["text"])]


def test_a_closure_cannot_be_told():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pages, _ = made(model, optimizer)

    def closure():
        optimizer.zero_grad()
        loss = model(**batch())
        loss.backward()
        return loss

    optimizer.step(closure)
    assert pages[0]["unread"]["update"] == watcher.CLOSURE


def test_a_new_kind_of_row_inside_a_closure_cannot_be_told():
    """No window is watched when the step begins: the closure's forward opens one."""
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pages, _ = made(model, optimizer, when=When("first"))
    for n in range(5):

        def closure(image=n != 4):
            optimizer.zero_grad()
            loss = model(**batch(image=image))
            loss.backward()
            return loss

        optimizer.step(closure)
    assert pages[-1]["kinds"] == ["text"]
    assert pages[-1]["unread"]["update"] == watcher.CLOSURE


@pytest.mark.parametrize("missing", ["books", "gather"])
def test_a_part_that_is_missing_ends_no_run(missing):
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    _, found = made(model, optimizer)
    step(model, optimizer, 0)
    delattr(found, missing)
    step(model, optimizer, 1)
    step(model, optimizer, 2)


def test_a_reader_that_fails_is_a_fault_of_ours():
    class Bad(Counts):
        def before(self):
            raise RuntimeError("oh")

        def page(self):
            raise RuntimeError("oh")

    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pages = []
    Watcher(subject(model, optimizer), [Bad], pages.append)
    step(model, optimizer)
    assert pages[0]["unread"]["update"] == watcher.FAULT


def test_a_step_that_a_scaler_leaves_out_is_no_window():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    pages, found = made(model, optimizer)
    for n in range(3):
        loss = scaler.scale(model(**batch(n)))
        (loss * (float("inf") if n == 1 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert found.window == 2
    assert [page["window"] for page in pages] == [0, 1]


def test_verdicts_come_with_their_step():
    said = []
    run(2, on_verdicts=lambda number, verdicts: said.append((number, len(verdicts))), first_step=40)
    assert [number for number, _ in said] == [41, 42]


def test_the_run_is_bitwise_the_same():
    torch.manual_seed(0)
    one = Toy()
    two = copy.deepcopy(one)
    state = torch.get_rng_state()
    run(6, one, torch.optim.AdamW(one.parameters(), 0.01), when=When("every 2"))
    assert torch.equal(state, torch.get_rng_state())
    optimizer = torch.optim.AdamW(two.parameters(), 0.01)
    for n in range(6):
        step(two, optimizer, n)
    assert all(map(torch.equal, one.parameters(), two.parameters()))


@pytest.mark.parametrize("number", [1, 5])
def test_the_model_is_let_go(number):
    model, optimizer = run(number)[2:]
    gone = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert gone() is None


def test_between_watched_windows_nothing_of_the_model_is_held():
    *_, _found, model, optimizer = run(5)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(model)
        del model
        assert gone() is None
    finally:
        gc.enable()
    del optimizer


def test_close_takes_everything_off():
    _, found, model, optimizer = run(2)
    found.close()
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert found not in watcher.everyone()


def test_a_copy_of_the_model_has_no_watcher():
    pages, _, model, _ = run(1)
    other = copy.deepcopy(model)
    pickle.loads(pickle.dumps(other))
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    step(other, optimizer)
    assert len(pages) == 1


def test_the_window_behind_a_checkpoint_is_watched():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pages, found = made(model, optimizer)
    for n in range(8):
        step(model, optimizer, n)
        if n == 5:
            found.saves()
    assert [page["window"] for page in pages] == [0, 1, 2, 6]


def test_a_first_window_that_was_not_seen_as_a_whole_is_left_out():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(**batch()).backward()
    pages, _ = made(model, optimizer, whole=False)
    for n in range(6):
        step(model, optimizer, n)
    assert [page["window"] for page in pages] == [1, 2, 3]


@pytest.mark.parametrize(("scales", "codes"), [(True, []), (False, ["VG651"])])
def test_steps_that_are_left_out_in_a_row_are_told_where_no_loss_scale_is_searched_for(
    scales, codes
):
    said = []
    _, found, *_ = run(0, on_verdicts=lambda _, verdicts: said.extend(verdicts))
    for _ in range(5):
        found.skip(scales)
    assert [entry.code for verdict in said for entry in verdict.entries] == codes
