"""The station "targets": numbers read in front of the head in, verdicts out. No torch."""

from __future__ import annotations

import math
from itertools import zip_longest

import pytest

from vlmguard.ledger.account import Account
from vlmguard.ledger.judged_window import Judge
from vlmguard.ledger.stations import targets


def forward(count=8.0, weight=0.125, **told):
    """Numbers of a forward in which ``count`` tokens weigh the same."""
    spread = {"tenth": weight, "median": weight, "ninetieth": weight, "mean": weight}
    numbers = {"count": count, "finite": 1, "used": min(count, 64), "negative": 0.0,
               "next": 1e-6, "same": 0.99, "after": 0.99}  # fmt: skip
    numbers |= spread | told
    return [numbers[name] for name in targets.FIELDS]


def page(*forwards, rank=0, step=1, rounds=None, scale=1.0, precision="float32", accumulation=4):
    read = {"forwards": [*forwards], "rounds": rounds or [*range(len(forwards))], "scale": scale,
            "precision": precision, "accumulation": accumulation}  # fmt: skip
    return {"window": step - 1, "step": step, "rank": rank, "micro": len(forwards), "kinds": (),
            "unread": {}, "targets": read}  # fmt: skip


def judged(*windows, world=1):
    """The last of some windows' verdicts; a window is a page, or pages by rank."""
    judge = Judge(Account((), world), ["targets"])
    windows = [each if isinstance(each, list) else [each] for each in windows]
    return [judge.window(pages)[0] for pages in windows][-1]


def told(verdict):
    return [(entry.code, entry.level) for entry in verdict.entries]


def test_a_mean_over_tokens_balances_with_its_numbers():
    verdict = judged(page(forward()))
    assert (verdict.state, verdict.entries, verdict.reason) == ("balances", (), "")
    assert verdict.shown["sum"] == 1
    assert verdict.shown["tokens"] == 8
    assert verdict.shown["weights"] == [0.125, 0.125]


def test_the_loss_scale_is_divided_out():
    verdict = judged(page(forward(weight=0.125 * 65536), scale=65536.0))
    assert (verdict.state, verdict.shown["sum"]) == ("balances", 1)


def test_learning_to_repeat_each_token_is_told_at_once():
    smoothed = forward(next=0.994, same=5e-3)
    verdict = judged(page(smoothed, smoothed))
    assert told(verdict) == [("VG620", "warning")]
    assert "16 trained tokens is itself" in verdict.entries[0].why


def test_labels_shifted_twice_are_told():
    verdict = judged(page(forward(next=0.99, after=1e-6)))
    assert told(verdict) == [("VG620", "warning")]
    assert "the one after the next" in verdict.entries[0].why


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("rest", [0.2, 0.6, 1.0])
def test_another_objective_is_not_called_wrong(rest, precision):
    verdict = judged(page(forward(next=rest, weight=0.5), precision=precision))
    assert (verdict.state, verdict.entries) == ("cannot tell", ())
    assert "not plain cross-entropy" in verdict.reason


def test_one_forward_of_two_that_repeats_tokens_is_another_objective():
    verdict = judged(page(forward(next=0.99, same=1e-6), forward()))
    assert (verdict.state, verdict.entries) == ("cannot tell", ())


def test_a_row_of_one_repeated_token_is_no_wrong_target():
    assert judged(page(forward(same=1e-6))).state == "balances"


def test_preferences_and_policy_gradients_have_both_signs():
    verdict = judged(page(forward(tenth=-0.2, median=0.1, negative=0.5)))
    assert (verdict.state, verdict.entries) == ("cannot tell", ())
    assert "both signs (50% negative)" in verdict.reason
    assert verdict.shown["tokens"] == 8


UNREAD = [
    ([forward(finite=0.0)], "not finite"),
    ([forward(used=0, **dict.fromkeys(("median", "mean", "next", "same"), math.nan))], "certain"),
    ([forward(count=0, used=0)], "no position"),
    ([], "no position"),
]


@pytest.mark.parametrize(("forwards", "reason"), UNREAD)
def test_what_cannot_be_read_is_no_number(forwards, reason):
    verdict = judged(page(*forwards))
    assert verdict.state == "cannot tell"
    assert reason in verdict.reason
    assert "sum" not in verdict.shown


def means(*counts, of=1.0):
    """Forwards whose tokens weigh together the same."""
    return [forward(count, of / len(counts) / count) for count in counts]


def test_a_mean_of_means_over_micro_batches_is_told():
    verdict = judged(page(*means(10.0, 40.0)))
    assert told(verdict) == [("VG621", "warning")]
    assert "up to 4 times: the loss averages one mean per micro-batch" in verdict.entries[0].why
    assert "micro-batch 0 on rank 0: 10 targets, micro-batch 1" in verdict.entries[0].why


def test_a_mean_of_means_over_ranks_is_told():
    windows = [page(forward(10.0, 0.05), forward(10.0, 0.05), rank=0),
               page(forward(25.0, 0.02), forward(25.0, 0.02), rank=1)]  # fmt: skip
    verdict = judged(windows, world=2)
    assert told(verdict) == [("VG621", "warning")]
    assert "one mean per rank" in verdict.entries[0].why
    assert verdict.shown["sum"] == 1


def test_nearly_even_counts_are_a_note():
    assert told(judged(page(*means(10.0, 12.0)))) == [("VG621", "note")]


def test_weights_on_purpose_are_a_note():
    uneven = forward(10.0, 0.05, tenth=0.02, ninetieth=0.2)
    assert told(judged(page(uneven, forward(10.0, 0.05)))) == [("VG621", "note")]
    assert told(judged(page(forward(10.0, 0.08), forward(20.0, 0.01)))) == [("VG621", "note")]


def test_means_that_the_models_class_asks_for_are_a_note():
    uneven = page(*means(10.0, 40.0))
    uneven["targets"]["means"] = True
    verdict = judged(uneven)
    assert told(verdict) == [("VG621", "note")]
    assert "accepts_loss_kwargs = False" in verdict.entries[0].why


def test_two_losses_that_are_added_are_a_note():
    assert told(judged(page(*means(8.0, 16.0), rounds=[0, 0]))) == [("VG621", "note")]


def test_rounding_of_short_types_is_no_inequality():
    noisy = forward(tenth=0.12, ninetieth=0.135, next=5e-3)
    assert judged(page(noisy, precision="bfloat16")).entries == ()


def four(weight, step=1):
    return page(*[forward(8.0, weight)] * 4, step=step)


def test_a_loss_that_ignores_the_number_of_items_is_told_in_the_second_window():
    assert told(judged(four(0.125))) == [("VG622", "note")]
    verdict = judged(four(0.125), four(0.125, 2))
    assert told(verdict) == [("VG622", "warning")]
    assert "4 times too large, as there are 4 micro-batches" in verdict.entries[0].why
    assert verdict.entries[0].since == 1


def test_two_losses_with_a_backward_each_are_no_wrong_scale():
    """Nobody declared an accumulation: the two may be meant to be summed."""
    for declared in (0, 1):
        windows = [
            page(*[forward(8.0, 0.125)] * 2, step=step, accumulation=declared) for step in (1, 2, 3)
        ]
        assert told(judged(*windows)) == [("VG622", "note")]


def test_windows_may_have_other_numbers_of_micro_batches():
    short = page(forward(), forward(), step=2)
    assert told(judged(four(0.125), short)) == [("VG622", "warning")]


def test_a_loss_that_is_divided_twice_is_told():
    verdict = judged(four(1 / 128), four(1 / 128, 2))
    assert told(verdict) == [("VG622", "warning")]
    assert "4 times too small" in verdict.entries[0].why


def test_ranks_and_micro_batches_make_a_factor():
    windows = [[page(*[forward(8.0, 0.25)] * 4, rank=r, step=s) for r in (0, 1)] for s in (1, 2)]
    verdict = judged(*windows, world=2)
    assert "8 times too large, as there are 4 micro-batches times 2 ranks" in verdict.entries[0].why


def test_a_last_window_with_fewer_micro_batches_is_no_warning():
    """Four micro-batches, of which an epoch's end has two: their weights sum to 0.5."""
    short = page(forward(8.0, 1 / 32), forward(8.0, 1 / 32), step=2)
    assert told(judged(four(1 / 32), short)) == [("VG622", "note")]
    assert judged(four(1 / 32), short, four(1 / 32, 3)).entries == ()


def test_batches_that_an_own_loss_leaves_out_are_no_wrong_scale():
    """Two of four: as many weights as there were backwards, and none of them divided twice."""
    windows = [page(*[forward(8.0, 1 / 32)] * 2, step=step) for step in (1, 2, 3)]
    assert told(judged(*windows)) == [("VG622", "note")]
    assert "times too" not in judged(*windows).entries[0].why


def test_a_scale_that_nothing_explains_stays_a_note():
    windows = [page(forward(weight=0.0625), step=step) for step in (1, 2, 3)]
    assert told(judged(*windows)) == [("VG622", "note")]


def test_two_forwards_of_one_backward_are_no_micro_batches():
    windows = [page(*[forward(8.0, 0.125)] * 2, rounds=[0, 0], step=step) for step in (1, 2, 3)]
    assert told(judged(*windows)) == [("VG622", "note")]


def test_the_first_token_of_each_row_is_counted_by_trainers():
    """It is in num_items_in_batch, and nothing predicts it."""
    assert judged(page(forward(23.0, 1 / 24))).state == "balances"


def test_no_sum_without_all_ranks():
    for pages in ([page(forward()), None], [page(forward())]):
        verdict = judged(pages, world=2)
        assert (verdict.state, "sum" in verdict.shown) == ("balances", False)


def test_a_thinned_page_has_no_sum():
    thinned = {**page(forward(), [math.nan] * len(targets.FIELDS)), "thinned": 2}
    verdict = judged(thinned)
    assert (verdict.state, "sum" in verdict.shown) == ("balances", False)


def test_weights_of_a_row_by_place():
    read = page(forward(), forward())
    read["targets"] |= {"places": [[3, 25], [1]], "weights": [[0.25, 0.125], [0.125]],
                        "lengths": [24, 24]}  # fmt: skip
    assert targets.weights(read, 0, 0) == {3: 2.0}
    assert targets.weights(read, 0, 1) == {1: 1.0}
    assert targets.weights(read, 1, 0) == {1: 1.0}
    assert targets.weights(read, 2, 0) == {}


def test_fields_are_those_of_a_forward():
    names = list(targets.Forward.__dataclass_fields__)[3:]
    assert all(a == b for a, b in zip_longest(names, targets.FIELDS))
