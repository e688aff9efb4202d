"""Which release flips a verdict, from verdicts made up here."""

from __future__ import annotations

import pytest

from tools.lab import bisect, envs
from tools.lab.cases import Case
from vlmguard.compat import verdicts

NAMES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
CASE = Case("zero3", "non_reentrant", "lora", "two_tower", "images", 1)


@pytest.mark.parametrize("first", NAMES[1:])
def test_the_first_release_of_a_flip_is_found(first):
    flip = bisect.between(NAMES, lambda name: ("ok",) if name < first else ("hang",))
    assert (flip.first, NAMES.index(flip.first) - NAMES.index(flip.last)) == (first, 1)
    assert (flip.before, flip.after) == (("ok",), ("hang",))
    assert len(flip.tried) <= 5


def test_a_release_that_cannot_be_measured_is_left_out():
    told = {"0.1": ("ok",), "0.4": None, "0.6": ("hang",)}
    flip = bisect.between(NAMES, lambda name: told.get(name, ("hang",)))
    assert (flip.last, flip.first) == ("0.1", "0.2")
    assert "0.4" not in flip.tried


def test_no_flip_between_two_that_agree():
    with pytest.raises(bisect.NoFlip, match="agree"):
        bisect.between(NAMES, lambda _: ("ok",))
    with pytest.raises(bisect.NoFlip, match="cannot be measured"):
        bisect.between(NAMES, lambda _: None)


def test_a_row_is_kept_once(tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "folder", lambda: tmp_path)
    flip = bisect.Flip("0.19.2", "0.19.3", ("hang",), ("ok",), NAMES)
    assert bisect.rows() == []
    for _ in range(2):
        bisect.keep(bisect._row(envs.sets()["newest"], "deepspeed", flip, [CASE]))
    (row,) = bisect.rows()
    assert row["case"] == [{"case": CASE.key, "before": "hang", "after": "ok"}]
    assert "deepspeed" not in row["beside"]
