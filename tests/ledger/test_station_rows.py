"""The station "rows": counts of batches in, verdicts out. No torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger import test_station_targets
from vlmguard.ledger.account import Account
from vlmguard.ledger.judged_window import Judge
from vlmguard.ledger.stations import repeated_rows, rows
from vlmguard.runtime import report

IMAGE, OTHER = [-2.0, 2.0, 10.0, 50.0], [-1.9, 2.1, 11.0, 49.0]
BLACK = [-1.8, -1.8, -180.0, 18.0]


def row(**told):
    """Counts of a row of 20 tokens, the last 8 of them targets and its own."""
    counts = dict.fromkeys(rows.COLUMNS, 0) | {"length": 20, "targets": 8, "own": 8, "eos": 1,
                                               "eos_targets": 1}  # fmt: skip
    counts |= told
    return [counts[name] for name in rows.COLUMNS]


def page(*counts, rank=0, step=1, **told):
    counts = counts or (row(), row())
    digests = [100 * step + 10 * rank + number for number in range(len(counts))]
    read = {"counts": [*counts], "digests": digests,
            "sizes": [len(counts)], "kept": [], "images": [], "together": [], "labels": True,
            "bounded": True, "pixels": False}  # fmt: skip
    read |= told
    if read["images"] and not read["together"]:
        read["together"] = [len(read["images"])]
    return {"window": step - 1, "step": step, "rank": rank, "micro": 1, "kinds": (), "unread": {},
            "rows": read}  # fmt: skip


def judged(*windows, world=1, memory=None):
    judge = Judge(Account((), world), ["rows"])
    judge._memory["rows"] |= memory or {}
    windows = [each if isinstance(each, list) else [each] for each in windows]
    return [judge.window(pages)[0] for pages in windows][-1]


def told(verdict):
    return [(entry.code, entry.level) for entry in verdict.entries]


def test_plain_rows_balance():
    verdict = judged(page())
    assert (verdict.state, verdict.entries) == ("balances", ())
    assert (verdict.shown["targets"], verdict.shown["count"]) == (16, 2)


@pytest.mark.parametrize(
    ("odd", "word"),
    [
        ({"on_media": 3}, "3 targets are placeholders"),
        ({"on_pads": 2}, "2 targets are pads"),
    ],
)
def test_targets_where_nothing_can_be_learned_are_told(odd, word):
    verdict = judged(page(row(), row(**odd)))
    assert told(verdict) == [("VG610", "warning")]
    assert word in verdict.entries[0].why
    assert verdict.entries[0].what == "row 1 of micro-batch 0 on rank 0"


def test_a_text_that_begins_twice_is_told_when_most_do():
    assert told(judged(page(row(bos_twice=1), row(bos_twice=1)))) == [("VG610", "warning")]
    assert told(judged(page(row(bos_twice=1), row(), row()))) == [("VG610", "note")]


def test_rows_without_targets():
    empty = row(targets=0, own=0, eos_targets=0)
    assert told(judged(page(row(), row(), row(), empty))) == [("VG610", "note")]
    assert told(judged(page(empty, empty))) == [("VG610", "warning")]
    two_of_eight = [row()] * 6 + [empty] * 2
    assert told(judged(page(*two_of_eight))) == [("VG610", "note")]
    assert told(judged(page(*two_of_eight, *two_of_eight))) == [("VG610", "warning")]
    halves = [page(row(), empty, step=step) for step in (1, 2)]
    assert told(judged(*halves)) == [("VG610", "warning")]


SHIFTED = {"own": 0, "shifted": 8}


def learns(**told):
    """What the station "targets" read in the same window."""
    return test_station_targets.page(test_station_targets.forward(**told))["targets"]


def test_labels_shifted_already_depend_on_what_the_model_learns():
    shifted = page(row(**SHIFTED))
    assert told(judged(shifted)) == [("VG610", "note")]
    assert told(judged(shifted | {"targets": learns()})) == []
    wrong = judged(shifted | {"targets": learns(next=0.99, after=1e-6)})
    assert told(wrong) == [("VG610", "warning")]
    assert "next tokens already" in wrong.entries[0].why


def test_labels_of_another_text():
    other = page(row(own=1)) | {"targets": learns(next=0.99)}
    assert told(judged(other)) == [("VG610", "warning")]
    assert told(judged(page(row(own=1)))) == [("VG610", "note")]


@pytest.mark.parametrize(
    ("odd", "more", "word"),
    [
        ({"targets": 19, "own": 19}, {}, "every token is a target"),
        ({"eos_targets": 0}, {}, "never a target"),
        ({"restarts": 2}, {"bounded": False}, "packed rows"),
        ({"begins": 2}, {"bounded": False}, "several texts begin in one row"),
    ],
)
def test_what_may_be_meant_is_a_note(odd, more, word):
    verdict = judged(page(row(**odd), **more))
    assert told(verdict) == [("VG610", "note")]
    assert word in verdict.entries[0].why
    assert verdict.state == "balances"


def test_without_labels_nothing_is_said_of_targets():
    verdict = judged(page(row(targets=0, own=0), labels=False))
    assert (verdict.entries, "targets" in verdict.shown) == ((), False)


SEES = row(media=4)


def seen(*images, step=1, **told):
    return page(SEES, SEES, step=step, images=[*images], pixels=True, **told)


def test_pixels_of_0_to_255_are_told():
    verdict = judged(seen([0.0, 255.0, 1e5, 1e4], [0.0, 251.0, 1e5, 1e4]))
    assert told(verdict) == [("VG611", "warning")]
    assert "up to 255" in verdict.entries[0].why


def test_a_blank_image_beside_others_is_nothing():
    assert judged(seen(BLACK, IMAGE), seen(BLACK, OTHER, step=2)).entries == ()


def test_blank_images_only_are_told_in_the_second_window():
    assert judged(seen(BLACK, BLACK)).entries == ()
    verdict = judged(seen(BLACK, BLACK), seen(BLACK, BLACK, step=2))
    assert told(verdict) == [("VG611", "warning")]
    assert "one colour" in verdict.entries[0].why


def test_one_image_for_all_rows_is_told():
    verdict = judged(seen(IMAGE, IMAGE), seen(IMAGE, IMAGE, step=2))
    assert told(verdict) == [("VG611", "warning")]
    assert "are the same" in verdict.entries[0].why


def test_a_blank_image_that_no_row_refers_to_is_nothing():
    windows = [page(images=[BLACK, BLACK], pixels=True, step=step) for step in (1, 2, 3)]
    assert judged(*windows).entries == ()


def firsts(sign=0.0):
    """Three windows; the images of each batch are the same, those of batches are not."""
    numbers = [[-2.0, 2.0, float(step), 50.0] for step in (1, 2, 3)]
    return [seen(image, image, step=step) | {"targets": learns(negative=sign)}
            for step, image in enumerate(numbers, 1)]  # fmt: skip


def test_the_first_rows_image_for_a_whole_batch_is_told():
    verdict = judged(*firsts())
    assert told(verdict) == [("VG611", "warning")]
    assert "one image for all of its rows" in verdict.entries[0].why
    assert judged(*firsts()[:2]).entries == ()


def test_pairs_of_a_preference_share_their_image():
    assert judged(*firsts(sign=0.5)).entries == ()


def test_placeholders_without_pixels():
    assert told(judged(page(SEES, SEES))) == [("VG611", "warning")]
    assert told(judged(page(row(media=1), row()))) == [("VG611", "note")]
    assert judged(page(SEES, SEES, pixels=True)).entries == ()


def ranks(step, same, **told):
    first = [page(rank=rank, step=step, **told) for rank in (0, 1)]
    if same:
        first[1]["rows"]["digests"] = first[0]["rows"]["digests"]
    return first


def test_the_same_rows_on_all_ranks_are_told_in_the_second_window():
    assert judged(ranks(1, True), world=2).entries == ()
    verdict = judged(ranks(1, True), ranks(2, True), world=2)
    assert told(verdict) == [("VG612", "warning")]
    assert "all 2 ranks have the same rows" in verdict.entries[0].why


def test_other_rows_or_other_images_are_none():
    assert judged(ranks(1, True), ranks(2, False), world=2).entries == ()
    windows = [ranks(step, True) for step in (1, 2, 3)]
    for window in windows:
        for each, image in zip(window, (IMAGE, OTHER), strict=True):
            each["rows"] |= {"images": [image], "together": [1], "pixels": True}
    assert judged(*windows, world=2).entries == ()


def test_one_row_over_and_over_is_none():
    windows = [[page(row(), rank=r, step=s, digests=[7]) for r in (0, 1)] for s in (1, 2, 3)]
    assert judged(*windows, world=2).entries == ()


def test_one_row_with_an_image_over_and_over_is_none():
    read = {"digests": [7], "images": [IMAGE], "pixels": True}
    windows = [[page(SEES, rank=r, step=s, **read) for r in (0, 1)] for s in (1, 2, 3)]
    assert judged(*windows, world=2).entries == ()


def test_one_text_for_the_same_images_on_all_ranks_is_told():
    windows = [[page(SEES, rank=r, step=s, digests=[7], images=[[-2.0, 2.0, 10.0 * s, 50.0]],
                     pixels=True) for r in (0, 1)] for s in (1, 2, 3)]  # fmt: skip
    assert told(judged(*windows, world=2)) == [("VG612", "warning")]


def test_ranks_that_share_a_model_or_a_row_have_the_same_rows():
    windows = [ranks(step, True, shared=True) for step in (1, 2, 3)]
    assert judged(*windows, world=2).entries == ()


def test_prompts_of_a_policy_gradient_repeat_by_design():
    windows = [[each | {"targets": learns(negative=0.5)} for each in ranks(step, True)]
               for step in (1, 2, 3)]  # fmt: skip
    assert judged(*windows, world=2).entries == ()


def test_rows_repeated_after_a_resume_are_told():
    earlier = {judged(page(step=step)).shown["digest"]: step for step in (1, 2, 3)}
    again = [page(step=step, digests=page(step=step - 3)["rows"]["digests"]) for step in (4, 5)]
    verdict = judged(*again, memory={"earlier": earlier})
    assert told(verdict) == [("VG612", "warning")]
    assert "step 5 has those of step 2" in verdict.entries[0].why
    others = [page(step=step) for step in (4, 5)]
    assert judged(*others, memory={"earlier": earlier}).entries == ()


def test_a_report_tells_what_a_run_read_before_it_was_resumed(monkeypatch, tmp_path):
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "report.json"))
    for run in ("old", "new"):
        for step in (1, 2, 6):
            shown = {"digest": f"{run} {step}"}
            report.write("ledger", {"step": step, "stations": {"rows": {"shown": shown}}})
    assert repeated_rows.earlier(3) == {"new 1": 1, "new 2": 2}
    assert repeated_rows.earlier(6) == {"new 1": 1, "new 2": 2, "new 6": 6}
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "none.json"))
    assert repeated_rows.earlier(6) == {}


def test_kept_rows_are_shown_with_their_weights():
    kept = {"micro": 0, "rows": [1], "start": [4], "ids": [[5, 6, 7, 8]], "marks": [[0, 1, 2, 2]]}
    both = page(row(), row(on_media=2), kept=[kept])
    both["targets"] = {
        **learns(),
        "places": [[20 + 5]], "weights": [[0.25]], "lengths": [20],
    }  # fmt: skip
    judge = Judge(Account((), text=lambda ids: [f"w{each} " for each in ids]), ["rows"])
    (shown,) = judge.window([both])[0].shown["rows"]
    assert (shown["rank"], shown["row"], "placeholders" in shown["why"]) == (0, 1, True)
    assert shown["pieces"] == [["w6 ", None], ["w7 ", 2.0], ["w8 ", True]]


def test_an_account_with_a_tokenizer_equals_one_without():
    account = Account(())
    assert replace(account, text=lambda ids: []) == account


def test_placeholders_among_the_targets_of_rows_that_mask_nothing_are_only_shown():
    everything = {"targets": 19, "own": 19, "media": 4, "on_media": 4}
    levels = told(judged(page(row(**everything), row(**everything), pixels=True)))
    assert levels == [("VG610", "note"), ("VG610", "note")], "TRL's collator for images"
    mixed = judged(page(row(**everything), row(media=4, on_media=4, targets=12, own=12)))
    assert ("VG610", "warning") in told(mixed)
