"""Rows that ms-swift takes in the place of others: by what is in them, not by where they stand."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from vlmguard_swift import substitutes


class Lazy:
    """As ms-swift's: tries the row, then others in an order of places."""

    def __init__(self, dataset, bad):
        self.dataset, self.bad = dataset, bad
        self._idx, self._idx_list = 0, list(range(len(dataset)))

    def __getitem__(self, at):
        while self.dataset[at] in self.bad:
            at = self._idx_list[self._idx]
            self._idx += 1
        return self.dataset[at]


@pytest.fixture
def lazy(monkeypatch):
    module = ModuleType("swift.dataset.utils")
    module.LazyLLMDataset = type("Mine", (Lazy,), {})
    for name in ("swift", "swift.dataset"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "swift.dataset.utils", module)
    substitutes.alike()
    return module.LazyLLMDataset


def test_the_same_row_has_the_same_substitute_in_any_order(lazy):
    rows = [{"text": str(number)} for number in range(8)]
    again = [{**row, "dataset": "another.jsonl"} for row in rows[::-1]]
    one, other = lazy(rows, [rows[3]]), lazy(again, [again[4]])
    assert one[3] == one[3] != rows[3]
    assert other[4] == {**one[3], "dataset": "another.jsonl"}, "ms-swift adds the file's name"
    assert one[5] == rows[5]
