"""What a user's objects hold is as before after a look at them."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import queue
import random
import sys
import threading
from collections import OrderedDict, deque

import numpy as np
import pytest
import torch
from packaging.version import Version
from torch.utils import data

from vlmguard_torch.observe.reached import kept_objects


class Inner:
    def __init__(self):
        self.handle = None


class Own:
    """As a data set may be."""

    total = 0

    def __init__(self):
        self.rows = list(range(100_000))  # does not hide what comes behind it
        self.cache = OrderedDict(a=1, b=2)
        self.last, self.names = deque([1], maxlen=2), {"x"}
        self.objects = np.array([None, {"a": 1}], dtype=object)
        self.fixed, self.counts = np.zeros(2), np.zeros(3)
        self.fixed.flags.writeable = False
        self.sparse, self.seen = torch.eye(2).to_sparse(), torch.zeros(2)
        self.inner, self.calls = Inner(), 0

    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")

    def read(self):
        self.calls += 1
        self.seen += 1
        self.counts[0] = 5
        self.cache.move_to_end("a")
        self.cache["c"] = 3
        self.last.append(7)
        self.names.add("y")
        self.inner.handle = self.opened = object()
        Own.total = 9


def test_all_of_it_is_put_back():
    own = Own()
    with kept_objects([own.read]) as can_be:
        own.read()
    assert can_be
    assert (own.calls, own.seen.tolist(), own.counts.tolist()) == (0, [0, 0], [0, 0, 0])
    assert list(own.cache.items()) == [("a", 1), ("b", 2)]
    assert (list(own.last), own.names, own.inner.handle, Own.total) == ([1], {"x"}, None, 0)
    assert "opened" not in vars(own)
    assert own.cache is vars(own)["cache"]


def test_what_cannot_be_put_back_does_not_keep_the_rest(monkeypatch):
    own = Own()

    class Odd(dict):
        def __delitem__(self, key):
            raise RuntimeError

    own.odd = Odd(a=1)
    with kept_objects([own]):
        own.odd["b"] = 2
        own.calls = 4
    assert own.calls == 0


class Lazy(list):
    """Decodes where it is read."""

    def __iter__(self):
        raise AssertionError

    __getitem__ = __iter__


class Slots:
    __slots__ = ("calls",)


@pytest.mark.parametrize(
    ("held", "can_be"),
    [
        (iter([1]), False), ((n for n in ()), False), (itertools.count(), False),
        (zip((), strict=True), False), (range(3), True), ([1], True), ((iter([1]),), False),
        (queue.Queue(), False), (threading.Event(), False), (threading.Lock(), True),
        (random.SystemRandom(), False), (random.Random(1), True), (random.Random(1).random, True),
        (Lazy([1]), False), (Slots(), False), (functools.partial(print, iter([1])), False),
        (multiprocessing.Value("i"), False), (sys.stderr, True),
        (Version("1.0"), True),  # slots of an installed package's
    ],
)  # fmt: skip
def test_what_cannot_be_put_back_is_known(held, can_be):
    own = Own()
    own.held = held
    with kept_objects([own]) as found:
        assert found is can_be


class Base:
    drawn = 0
    rng = random.Random(3)

    def __getitem__(self, row):
        type(self).drawn += 1
        Base.drawn += 1
        return self.rng.random(), self.file.readline()

    @property
    def args(self):
        raise AssertionError("a user's property is called")


class Derived(Base, data.Dataset):
    def __init__(self, file):
        self.file = file

    def __len__(self):
        return 3


@pytest.mark.parametrize("around", [lambda d: d, lambda d: data.Subset(d, [0, 1]),
                                    lambda d: data.ConcatDataset([d, d])])  # fmt: skip
def test_a_data_set_and_those_around_it(around, tmp_path):
    (tmp_path / "prompts").write_text("one\ntwo\nthree\n")
    with (tmp_path / "prompts").open() as file:
        rows = around(Derived(file))
        with kept_objects([functools.partial(collate, rows, [1])]) as can_be:
            first = rows[0]
        assert can_be
        assert (Base.drawn, Derived.drawn) == (0, 0)
        assert rows[0] == first
    Base.drawn = 0
    del Derived.drawn


def collate(rows, more):
    return rows
