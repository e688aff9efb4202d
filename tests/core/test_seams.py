from __future__ import annotations

import copy
import functools
import pickle
import sys

import pytest

from vlmguard.runtime import seams
from vlmguard.runtime.seams import Seam, attach, detach, where


class Template:
    def collate(self, batch, extra=0):
        return [self.name, *batch, extra]

    def __init__(self, name="a"):
        self.name = name


def double(wrapped, instance, args, kwargs):
    return wrapped(args[0] * 2, *args[1:], **kwargs)


SEAM = Seam("collate", ("gone:X.collate", f"{__name__}:Template.collate"), double, "why")


@pytest.fixture(autouse=True)
def _attached():
    attach([SEAM])
    yield
    detach([SEAM])


def test_wraps_and_says_where():
    assert Template().collate([1]) == ["a", 1, 1, 0]
    assert where(SEAM) == ("attached", f"{__name__}:Template.collate")


def test_attach_twice_wraps_once():
    attach([SEAM])
    assert Template().collate([1]) == ["a", 1, 1, 0]


def test_detach_restores_and_switches_aliases_off():
    alias = Template().collate
    detach([SEAM])
    assert Template().collate([1]) == ["a", 1, 0]
    assert alias([1]) == ["a", 1, 0]
    assert not isinstance(vars(Template)["collate"], seams.SeamWrapper)


def test_off_switch(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    assert Template().collate([1]) == ["a", 1, 0]


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_bound_methods_survive(duplicate):
    held = functools.partial(Template("b").collate, extra=7)
    assert duplicate(held)([1]) == ["b", 1, 1, 7]
    assert duplicate(Template("c").collate)([1]) == ["c", 1, 1, 0]
    assert duplicate(Template.collate)(Template("d"), [1]) == ["d", 1, 1, 0]


def test_a_target_that_is_nowhere():
    lost = Seam("lost", ("json:NoSuchThing.method", "no_such_module:f"), double, "why")
    attach([lost])
    import json  # noqa: F401

    assert where(lost) == ("missing", "")
    assert seams.missing([lost, SEAM]) == ("lost",)


def test_waits_for_the_import():
    seam = Seam("later", ("colorsys:rgb_to_hsv",), lambda w, i, a, k: "wrapped", "why")
    sys.modules.pop("colorsys", None)
    attach([seam])
    assert where(seam)[0] == "waiting"
    import colorsys

    assert colorsys.rgb_to_hsv(1, 1, 1) == "wrapped"
    detach([seam])
    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
