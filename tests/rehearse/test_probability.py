"""How often ranks meet different kinds of rows."""

from __future__ import annotations

import itertools

import pytest

from vlmguard.rehearse import probability


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_odds_are_those_of_counting(share, world):
    """Every way in which ranks can draw, with its probability."""
    mixed = 0.0
    for drawn in itertools.product((True, False), repeat=world):
        chance = 1.0
        for without in drawn:
            chance *= share if without else 1 - share
        mixed += chance if len(set(drawn)) > 1 else 0.0
    assert probability.ranks_differ(share, world) == pytest.approx(mixed)


def test_a_batch_is_without_media_only_if_all_its_rows_are():
    assert probability.ranks_differ(0.5, 2, batch=2) == pytest.approx(1 - 0.25**2 - 0.75**2)


def test_words():
    assert "10% of the rows have no media: at 2 ranks 18% of the steps" in probability.told(0.1, 2)
    assert "over 99%" in probability.told(0.5, 64)
    assert "0.0002 of the steps" in probability.told(0.0001, 2)
