"""The zoo's page and its draw; what is committed holds."""

from __future__ import annotations

import itertools

import pytest

from tools.pages import zoo_page
from tools.zoo import campaign, configs, runs


def record(**changed):
    proven = {"kind": "image", "proven": True, "reason": "", "candidate": None, "behind": []}
    told = {
        "class": "Llava", "answer": "tried", "why": "", "rows": {"text": "", "image": ""},
        "blanks": [proven], "held": {"image": ""}, "dropped": [], "trial_s": 0.1,
        "transformers": "5", "torch": "2", "sources": "a",
    }  # fmt: skip
    return {**told, **changed}


def blank(**changed):
    return {**record()["blanks"][0], **changed}


@pytest.mark.parametrize(
    ("blanks", "word"),
    [
        ([blank()], "proven"),
        ([blank(), blank(kind="video", proven=None, reason="no row")], "proven"),
        ([blank(), blank(kind="audio", proven=False, reason="it differs")], "refuted"),
        ([blank(proven=None, reason="no row")], "not tried"),
        ([], "not tried"),
    ],
)
def test_one_word_for_a_class(blanks, word):
    assert zoo_page.answer(record(blanks=blanks)) == word


def test_what_did_not_hold_on_the_model_is_on_the_page(monkeypatch, tmp_path):
    told = record(held={"image": "2 tensors missed"}, blanks=[blank(behind=["projector"])])
    none = record(**{"class": "Asr"}, rows={"text": "no", "audio": ""}, answer="tried")
    monkeypatch.setattr(zoo_page, "DATA", tmp_path / "zoo.jsonl")
    monkeypatch.setattr(campaign, "RECORDS", tmp_path / "zoo.jsonl")
    campaign.save({"Llava": told, "Asr": none})
    page = zoo_page.text()
    assert "**proven**, and on the model: 2 tensors missed" in page
    assert "image: then projector" in page
    assert "1 of 2 classes ran a row of text and one with an input" in page
    assert "of those proven, 1 did not hold" in page
    assert "| Asr | tried: no |" in page


def test_the_first_cells_cover_every_pair():
    classes = [f"Class{number}" for number in range(30)]
    cells = [cell.removeprefix(runs.PREFIX).split("/") for cell in runs.drawn(classes)]
    assert len(cells) == len({*map(tuple, cells)}) == 30 * 4 * 2 * 2
    covered = {pair for cell in cells[:150] for pair in runs._pairs(tuple(cell))}
    values = (classes, runs.STRATEGIES, runs.TUNINGS, runs.ORDERS)
    every = {pair for cell in itertools.product(*values) for pair in runs._pairs(cell)}
    assert covered == every
    assert list(runs.drawn(classes)) == list(runs.drawn(classes[::-1]))


def test_cells_that_are_recorded_come_first_and_what_they_cover_is_not_drawn_again():
    classes = [f"Class{number}" for number in range(6)]
    first = list(itertools.islice(runs.drawn(classes), 12))
    done = ["zoo:Gone/ddp/trained/differ", *first[:9]]
    assert list(itertools.islice(runs.drawn(classes, done), 10)) == done
    again = list(runs.drawn(classes, done))
    assert len(again) == len({*again}) == 6 * 4 * 2 * 2 + 1
    assert again[10:13] == first[9:12]


def test_no_class_is_called_proven_that_misses_a_tensor():
    records = campaign.load()
    assert records
    assert [name for name, told in records.items() if any((told.get("held") or {}).values())] == []
    both = [told for told in records.values() if campaign.ran(told)]
    assert all(told["blanks"] for told in both)


def test_ninety_of_113_classes_run_both_rows():
    records = [told for told in campaign.load().values() if told["answer"] != "no tower"]
    assert len(records) == 113
    assert sum(map(campaign.ran, records)) >= 90
    assert len({told["transformers"] for told in records}) == 1


def test_a_reason_is_given_for_no_class_that_ran():
    out = {name for name, told in campaign.load().items() if not campaign.ran(told)}
    assert set(zoo_page.UNFOUND) <= out
    assert out >= configs.NO_TEXT_ROW


def test_a_broken_real_run_has_its_reason_on_the_page():
    ran = {key: told["on"]["verdict"] for key, told in runs.load().items() if "on" in told}
    broken = {zoo_page.name(key) for key, verdict in ran.items() if verdict == "broken"}
    assert broken <= set(zoo_page.WHY)
    assert set(zoo_page.WHY) <= broken, "a reason whose cell is right by now"


def test_a_run_that_could_not_be_made_has_its_reason_on_the_page():
    faults = {key for key, told in runs.load().items() if told["off"]["verdict"] == "fault"}
    assert {zoo_page.name(key) for key in faults} == set(zoo_page.FAULTS)


def test_omni_with_audio_on_some_ranks_is_stopped_by_nobody_under_ddp():
    """Its audio tower gets the gradients that plain torch gives it."""
    told = {key: each for key, each in runs.load().items() if "+audio/ddp/" in key}
    ends = {key.split("/")[2]: (each["off"]["verdict"], each["on"]) for key, each in told.items()}
    assert set(ends) == {"trained", "checkpointed", "reentrant"}
    for key, each in told.items():
        assert each["on"]["verdict"] == "right", key
        assert each["on"]["error"] < 1e-6
        assert not any(code.startswith("VG302") for code in each["on"]["did"])
    assert ends["trained"][0] == "right"
    assert ends["trained"][1]["bitwise"]
    assert ends["reentrant"][0] == ends["checkpointed"][0] == "crash"


def test_no_run_that_is_right_without_was_broken():
    told = [each for each in runs.load().values() if "on" in each]
    sides = [(each["off"]["verdict"], each["on"]["verdict"]) for each in told]
    assert len(sides) > 70
    assert ("right", "broken") not in sides
