"""Logs put together from what threads, frameworks and launchers print: class and starting ranks.

``data/threads.jsonl``: a line each, with its files and what is told of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmguard_explain.command import explain

ROWS = [json.loads(row) for row in (Path(__file__).parent / "data" / "threads.jsonl").open()]
NOT_FAILED = ("unknown", "finished", "unfinished")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['topic']}: {row['name']}" for row in ROWS])
def test_told(tmp_path, monkeypatch, row):
    monkeypatch.chdir(tmp_path)
    for name, text in row["files"].items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(text.encode())
    answer, _ = explain(row["words"])
    assert (answer.known.code if answer.known else answer.verdict) == row["told"]
    assert list(answer.ranks) == row["ranks"]


def test_there_are_failures_and_others():
    others = sum(row["told"] in NOT_FAILED for row in ROWS)
    assert len(ROWS) > 1200
    assert 100 < others < 400
