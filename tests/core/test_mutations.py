"""The changes by hand that `make mutate` makes still have a place each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutate.named import CHANGES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}: {change[1][:40]}")
def test_a_change_has_one_place(change):
    file, old, new = change
    assert (ROOT / file).read_text("utf-8").count(old) == 1
    assert old != new
