"""Which windows are watched."""

from __future__ import annotations

import math

import pytest

from vlmguard.ledger.when import KINDS, When


def due(when, number=4001):
    return [window for window in range(number) if when.due(window)]


@pytest.mark.parametrize(
    ("setting", "windows"),
    [
        ("", [0, 1, 2, 1000, 2000, 3000, 4000]),
        ("first", [0, 1, 2]),
        ("off", []),
        ("every 1500", [0, 1, 2, 1500, 3000]),
        (2000, [0, 1, 2, 2000, 4000]),
    ],
)
def test_the_first_windows_and_one_in_so_many(setting, windows):
    assert due(When(setting)) == windows


@pytest.mark.parametrize("setting", ["", "first", "off", "every 7", 1, 2])
def test_the_next_window_that_is_due(setting):
    when = When(setting)
    for window in range(1200):
        later = (each for each in range(window + 1, 4001) if when.due(each))
        assert when.after(window) == next(later, math.inf)


def test_a_new_kind_of_row_has_its_window_watched_once():
    when = When("first")
    when.saw(["image"])
    assert not when.new(["image"])
    assert when.new(["image", "text"])
    when.saw(["image", "text"])
    assert not when.new(["text"])


def test_kinds_do_not_go_on_for_ever():
    when = When()
    assert sum(when.new([str(number)]) for number in range(100)) == KINDS
    assert When("first").ended(3) is False
    assert not When("off").new(["text"])


def test_it_ends_where_nothing_can_come():
    when = When("first")
    for number in range(KINDS):
        when.new([str(number)])
    assert when.ended(3)
    assert not when.ended(2)
