"""Updates are compared, not weights."""

from __future__ import annotations

import json

import pytest

numpy = pytest.importorskip("numpy")

from vlmguard.rehearse import compare, training_rows, verdict  # noqa: E402
from vlmguard.rehearse.fixture import Scene  # noqa: E402


def weights(**named):
    return {name: numpy.array(value, dtype=numpy.float32) for name, value in named.items()}


BEFORE = weights(a=[1.0, 2.0], b=[5.0])
AFTER = weights(a=[1.5, 2.0], b=[5.25])


def off(after, before=BEFORE, begins=True):
    return compare.difference([(before, after)], (BEFORE, AFTER), begins)


def test_equal_updates_are_right():
    assert off(AFTER).worst == 0
    assert off(AFTER).moved == {"a", "b"}


def test_half_an_update_is_half_off():
    found = off(weights(a=[1.25, 2.0], b=[5.25]))
    assert found.errors["a"] == pytest.approx(0.5)
    assert next(iter(found.errors)) == "a"
    assert found.wrong == ["a"]


def test_what_does_not_move_is_all_off():
    assert off(weights(a=[1.0, 2.0], b=[5.25])).worst == pytest.approx(1.0)


def test_weights_that_close_are_still_wrong():
    """A hundredth of the update is missing: allclose on weights would pass."""
    found = off(weights(a=[1.495, 2.0], b=[5.25]))
    assert numpy.allclose(1.495, 1.5, rtol=1e-2)
    assert found.wrong == ["a"]


def test_not_a_number_is_wrong_and_so_is_a_reference_without_numbers():
    assert off(weights(a=[float("nan"), 2.0], b=[5.25])).worst == float("inf")
    for bad in (weights(a=[float("inf"), 0], b=[0]), weights(a=[1.5, 2.0], b=[float("nan")])):
        assert compare.difference([(BEFORE, AFTER)], (BEFORE, bad), True).fault
        assert compare.difference([(BEFORE, bad)], (BEFORE, bad), True).fault


def test_other_first_weights_or_names_say_nothing():
    assert "other weights" in off(AFTER, before=weights(a=[1.0, 2.1], b=[5.0])).fault
    assert off(AFTER, before=weights(a=[1.0, 2.1], b=[5.0]), begins=False).fault == ""
    assert "one of both" in compare.difference(
        [(weights(a=[1.0]), weights(a=[1.0]))], (BEFORE, AFTER), True).fault  # fmt: skip


def test_what_trains_at_some_of_the_steps_only_says_nothing():
    """LISA freezes layers and lets others train while it goes on."""
    less = {"a": AFTER["a"]}
    assert "b trains at some" in compare.difference([(BEFORE, less)], (BEFORE, AFTER), True).fault
    assert "b trains at some" in compare.difference([(BEFORE, AFTER)], (BEFORE, less), True).fault


def test_ranks_part_in_what_trains_at_some_of_the_steps_only():
    """A callback unfreezes it behind DDP's back."""
    one, other = {**AFTER, "c": weights(c=[1.0])["c"]}, {**AFTER, "c": weights(c=[1.5])["c"]}
    found = compare.difference([(BEFORE, one), (BEFORE, other)], (BEFORE, one), True)
    assert ("c trains at some" in found.fault, found.drift) == (True, (0.5, "c"))


def test_nothing_moved():
    assert compare.difference([(BEFORE, BEFORE)], (BEFORE, BEFORE), True).moved == frozenset()


def test_drift_between_ranks():
    other = weights(a=[1.4, 2.0], b=[5.25])
    found = compare.difference([(BEFORE, AFTER), (BEFORE, other)], (BEFORE, AFTER), True)
    assert found.drift[0] == pytest.approx(0.2)
    assert found.drift[1] == "a"


def test_a_rank_whose_weights_are_no_numbers_has_drifted():
    """Rank 0 is right, and NaN is neither larger nor smaller than anything."""
    other = weights(a=[float("nan"), 2.0], b=[5.25])
    found = compare.difference([(BEFORE, AFTER), (BEFORE, other)], (BEFORE, AFTER), True)
    assert found.drift == (float("inf"), "a")
    window = training_rows.Window(training_rows.LOADER, 2, 1)
    seen = verdict.Seen((), 0, (), None, [window], [found])
    assert verdict.wrong(seen).why == "the ranks' weights drift apart, by more than 100%"


def test_parts_of_ranks_are_put_together(tmp_path):
    scene = Scene("a", "sft", (), "", tmp_path)
    whole = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    padded = numpy.concatenate([whole.reshape(-1), [99.0, 99.0]])
    for rank in range(2):
        file = scene.weights(2, rank)
        numpy.savez(file, p=padded[4 * rank : 4 * rank + 4], q=numpy.ones(2))
        file.with_suffix(".json").write_text(json.dumps({"p": [2, 3]}))
    found = compare.weights(scene, 2, 2, 1)
    assert numpy.array_equal(found["p"], whole)
    assert numpy.array_equal(found["q"], numpy.ones(2))


def test_the_bound_follows_what_rounding_alone_makes():
    """One rank at learning rate 1 differed by 0.5% from itself, its sums in another order."""
    off = {"a": 0.012}
    assert compare.Difference(off).wrong == ["a"]
    assert not compare.Difference(off, rounding=0.005).wrong
    assert compare.Difference({"a": 0.08}, rounding=0.005).wrong == ["a"]


def test_backwards_are_the_same_steps():
    cells = [[[{"n": cell * 10 + rank}] for rank in range(2)] for cell in range(4)]
    other = training_rows.backwards(cells, 2)
    parts = [training_rows.alone(part) for part in (other[:2], other[2:])]
    steps = [sorted(row["n"] for row in part) for part in parts]
    assert steps == [[0, 1, 10, 11], [20, 21, 30, 31]]
    assert [row["n"] for row in training_rows.alone(other[:2])] == [11, 10, 1, 0]
