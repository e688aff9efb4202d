"""Raise inside every adapter function: the framework's call happens exactly once all the same."""

from __future__ import annotations

import pytest
from vlmguard_torch import freezing
from vlmguard_torch.gradients import Watch

import vlmguard_swift
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run, Tower
from vlmguard_swift import apply, decision, dummy, encoded, forward, shared, translate
from vlmguard_transformers import arguments, rehearse
from vlmguard_transformers import trainer as hf


class Hostile:
    """Anything asked of it raises."""

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise RuntimeError("boom")


@pytest.fixture
def calls():
    class Calls(list):
        def __call__(self, *args, **kwargs):
            self.append((args, kwargs))
            return "framework"

    return Calls()


WRAPPERS = [seam.wrapper for seam in vlmguard_swift.SEAMS]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("armed", [False, True])
def test_hostile_objects(wrapper, armed, calls, monkeypatch):
    if armed:
        monkeypatch.setenv(shared.COMPLETE, "1")
        shared.publish(Run("ms-swift", strategy="zero3", may_be_unused="yes", pads=True))
    try:
        assert wrapper(calls, Hostile(), (["--x"],), {}) == "framework"
        assert wrapper(calls, Hostile(), (), {}) == "framework"
    finally:
        shared.clear()
    assert len(calls) == 2


FUNCTIONS = [
    (translate, "run"),
    (freezing, "check"),
    (translate, "watch"),
    (translate, "paths"),
    (apply, "apply"),
    (decision, "remake"),
    (dummy, "forward"),
    (dummy, "possible"),
    (encoded, "batch"),
    (forward, "hindrance"),
    (forward, "encoding"),
    (rehearse, "rehearse"),
    (shared, "run"),
    (shared, "publish"),
    (arguments, "take"),
    (arguments, "resolve"),
    (hf, "towers"),
    (Watch, "before"),
    (Watch, "after"),
]


@pytest.mark.parametrize(("owner", "name"), FUNCTIONS, ids=lambda x: getattr(x, "__name__", x))
def test_each_function_may_fail(owner, name, calls, monkeypatch):
    def boom(*args, **kwargs):
        raise RuntimeError("boom")

    monkeypatch.setenv(shared.COMPLETE, "1")
    shared.publish(Run("ms-swift", strategy="zero3", may_be_unused="yes", pads=True))
    monkeypatch.setattr(owner, name, boom)
    try:
        for wrapper in WRAPPERS:
            assert wrapper(calls, object(), (["--x"],), {}) == "framework"
    finally:
        monkeypatch.undo()
        shared.clear()
    assert len(calls) == len(WRAPPERS)


def test_the_frameworks_own_exception_goes_on_unchanged():
    error = ValueError("theirs")

    def wrapped(*args, **kwargs):
        raise error

    for wrapper in WRAPPERS:
        with pytest.raises(ValueError, match="theirs") as caught:
            wrapper(wrapped, object(), (["--x"],), {})
        assert caught.value is error


def test_a_step_that_could_not_be_completed_is_no_completed_one(calls, monkeypatch):
    """Under ZeRO-3 it would go wrong in silence: VG204 stops it."""
    monkeypatch.setenv(shared.COMPLETE, "1")
    towers = (Tower("vision", ("visual",), 2, 2),)
    shared.publish(Run("ms-swift", strategy="zero3", may_be_unused="yes", pads=True, towers=towers))
    monkeypatch.setattr(dummy, "forward", lambda *_: 1 / 0)
    try:
        with pytest.raises(Stop, match="VG204"):
            vlmguard_swift.embed(calls, object(), (object(), {}), {})
    finally:
        shared.clear()
    assert len(calls) == 1
