"""Rehearsals beside real ranks: how two lines are compared, and what the committed ones say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.pages import rehearsals_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def page():
    return rehearsals_page


def line(side, verdict, **more):
    return {"job": "a", "side": side, "known": "", "verdict": verdict, "why": "", **more}


FORCED = {"order": "ranks differ"}


@pytest.mark.parametrize(
    ("mine", "theirs", "group"),
    [
        (line("rehearse", "hang"), line("real", "hang"), 1),
        (line("rehearse", "right"), line("real", "hang"), 3),
        (line("rehearse", "cannot tell"), line("real", "hang"), 2),
        (line("rehearse", "crash", known="crash"), None, 1),
        (line("rehearse", "hang", **FORCED), line("real", "right", forced="hang"), 1),
        (line("rehearse", "hang", **FORCED), line("real", "right", forced="right"), 3),
        (line("rehearse", "hang", **FORCED), line("real", "right"), 3),
        (line("rehearse", "hang", **FORCED), line("real", "hang"), 3),
        (line("rehearse", "hang", known="hang", **FORCED), None, 3),
    ],
)
def test_what_was_rehearsed_is_compared_on_the_rows_that_failed(page, mine, theirs, group):
    found = page.compared([each for each in (mine, theirs) if each])
    assert found[group] == ["a"]


def test_of_two_lines_the_newer_one_counts(page):
    lines = [line("rehearse", "right"), line("real", "hang"), line("rehearse", "hang")]
    assert page.compared(lines)[1] == ["a"]


def test_no_command_that_fails_in_real_ranks_was_rehearsed_as_right(page):
    lines = [json.loads(text) for text in (DOCS / "data" / "rehearse_jobs.jsonl").open()]
    pairs, alike, _, other = page.compared(lines)
    assert len(pairs) >= 150
    assert not [job for job in other if pairs[job][0]["verdict"] == "right"]
    assert len(alike) >= 0.95 * len(pairs)
    assert len(other) <= 0.01 * len(pairs)


def test_each_outcome_is_known_from_a_test_that_exists_or_from_real_ranks(page):
    lines = [json.loads(text) for text in (DOCS / "data" / "rehearse_jobs.jsonl").open()]
    for mine, _, real in page.compared(lines)[0].values():
        file, _, name = mine["test"].partition("::")
        assert real or f"def {name.partition('[')[0]}(" in (DOCS.parent / file).read_text()
