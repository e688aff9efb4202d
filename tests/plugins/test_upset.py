"""Every function of ours that a training goes through, upset in process: it raises, or returns what
it never should. The framework's own calls are made once each, and the weights are the same.

`make faults` does this in real ranks of real frameworks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import vlmguard_accelerate
import vlmguard_torch as ledger
import vlmguard_transformers
from tests.plugins.test_profiles import Accelerator, Model
from tests.plugins.test_trainer_adapter import loaded
from tools.faults.outside import OUTSIDE
from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.runtime import faults
from vlmguard_accelerate import loop

ROOT = Path(__file__).parents[2]
SEAMS = (*vlmguard_transformers.SEAMS, *vlmguard_accelerate.SEAMS, *ledger.SEAMS)
WRAPPERS = {each.wrapper for each in SEAMS}


@pytest.fixture
def upset(monkeypatch, tmp_path):
    """The stand-in that does it."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "kit" / "standins")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("VLMGUARD_TEST_REACHED", str(tmp_path / "reached"))
    import vlmguard_upset

    yield vlmguard_upset
    vlmguard_upset.undo()


def looped():
    """A loop around accelerate: what of the framework's was called, and the model."""
    torch.manual_seed(0)
    model, accelerator, made = Model(), Accelerator(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def theirs(*args, **kwargs):
        made.append("called")
        return "framework"

    def back(loss):
        made.append("backward")
        loss.backward()

    def moved():
        made.append("moved")
        optimizer.step()
        optimizer.zero_grad()

    loop.prepare(theirs, accelerator, (model, optimizer), {})
    for _ in range(2):
        loss = model(torch.ones(1, 2)).sum()
        loop.backward(back, accelerator, (loss,), {})
        loop.step(moved, optimizer, (), {})
    loop.end(theirs, accelerator, (), {})
    return theirs, made, model


def life():
    """A loop, and one call of each of the Trainer's seams; what it came to."""
    theirs, made, model = looped()
    for seam in vlmguard_transformers.SEAMS:
        loaded(seam)(theirs, SimpleNamespace(), (["--x"],), {})
    return made, [parameter.detach().clone() for parameter in model.parameters()]


def test_nothing_of_ours_fails_by_itself():
    faults._said.clear()
    looped()
    assert not faults._said


def forget():
    """A run that a fault kept open."""
    for state in reversed(runstate.opens()):
        guard.close(state)


def reached():
    """What of ours a life calls, as module:Class.function."""
    found, prefix = set(), f"{ROOT}/"

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix):
            path = code.co_filename[len(prefix) :].removeprefix("plugins/").removesuffix(".py")
            name = getattr(code, "co_qualname", "<")  # Python 3.11
            found.add(f"{path.replace('/', '.').removesuffix('.__init__')}:{name}")

    sys.setprofile(profile)
    try:
        life()
    finally:
        sys.setprofile(None)
    return sorted(
        name for name in found
        if name.startswith("vlmguard") and "<" not in name and name not in WRAPPERS
        and not name.startswith(OUTSIDE)
    )  # fmt: skip


KINDS = ("raises", "a word", "a number", "nothing", "a list", "an object")


@pytest.mark.parametrize("turn", [0, 3])
def test_no_function_of_ours_can_harm_a_training(upset, turn, capsys):
    """Each function in two of the six ways, which both go round."""
    expected = life()
    forget()
    names = reached()
    forget()
    assert len(names) > 100 or sys.version_info < (3, 11)
    harm = {}
    for number, name in enumerate(names):
        faults._said.clear()
        how = KINDS[(number + turn) % len(KINDS)]
        try:
            upset.install(how, name, {0})
        except upset.Closed:
            continue
        try:
            made, weights = life()
            if made != expected[0]:
                harm[name, how] = made
            elif not all(map(torch.equal, weights, expected[1])):
                harm[name, how] = "other weights"
        except BaseException as error:
            harm[name, how] = f"{type(error).__name__}: {error}"
        finally:
            upset.undo()
            forget()
    assert not harm
