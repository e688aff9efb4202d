"""How long a command's own ending takes: its last batch, its next epoch, every row's reward."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("numpy")

from vlmguard.rehearse import ending, training_rows
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal
from vlmguard.rehearse.request import Request


@pytest.mark.parametrize(
    ("flags", "count", "world", "rows_", "last", "epochs"),
    [((), 101, 2, 9, 8, 2), ((), 100, 2, 8, 8, 2), (("--num_train_epochs", "1"), 101, 2, 9, 4, 1),
     ((), 13, 8, 9, 8, 2), (("--max_steps", "10"), 100, 2, 10, 4, 0),
     (("--max_steps", "90"), 101, 2, 9, 6, 0)],
)  # fmt: skip
def test_an_ending_has_the_last_batch_of_its_own(flags, count, world, rows_, last, epochs):
    """Whole or not, as many steps as an epoch needs, and another epoch where the command has it."""
    request = Request("x", "sft", flags, "/", "ddp", world, "/", "m", "/")
    length = ending._length(request, training_rows.Sample([{}], count=count))
    assert (length.rows, length.last, length.epochs) == (rows_, last, epochs)
    assert not length.supposed


def test_an_ending_supposes_what_nobody_knows():
    request = Request("x", "sft", ("--split_dataset_ratio", "0.1"), "/", "ddp", 2, "/", "m", "/")
    sample = training_rows.Sample([{}], count=100)
    assert "do not divide" in ending._length(request, sample).supposed


@pytest.mark.parametrize(
    ("flags", "read", "count", "limit", "rows_", "last", "unmet"),
    [((), 24, 24, 300.0, 24, 25, ""), (("--num_iterations", "2"), 24, 24, 300.0, 24, 49, ""),
     (("--per_device_train_batch_size", "4"), 25, 25, 300.0, 28, 8, ""),
     ((), 700, 700, 300.0, 300, 301, "300 of 700"), ((), 700, 700, 1.0, 4, 5, "4 of 700"),
     ((), 200, 9000, 300.0, 200, 201, "200 of 9000"),
     ((), 200, 0, 300.0, 200, 201, "200 of more than 200"), ((), 1, 1, 300.0, 1, 5, "")],
)  # fmt: skip
def test_as_many_rows_meet_their_rewards_as_fit(flags, read, count, limit, rows_, last, unmet):
    """In half of the time, at the pace of the passes before; some steps in any case."""
    argv = ("--num_generations", "2", "--per_device_train_batch_size", "1", *flags)
    request = Request("x", "grpo", argv, "/", "ddp", 2, "/", "m", "/", row="prompt",
                      data=("rows.jsonl",), limit=limit)  # fmt: skip
    passes = Rehearsal(request, Commands(argv, ()), (), None, None, None)
    passes.outcomes = [{"pace": 0.5}, {"pace": 0.2}, {}]
    length = ending._rewarded(passes, training_rows.Sample([{}] * read, count=count))
    assert (length.rows, length.last) == (rows_, last)
    assert length.unmet == (unmet and f"rewards: {unmet} rows met theirs here")


def test_only_what_has_rewards_waits_for_them():
    request = Request("x", "grpo", (), "/", "ddp", 2, "/", "m", "/", row="prompt")
    assert ending.rewards(request)
    assert not ending.rewards(replace(request, generates=True, row="chat"))  # GKD has none


def test_odd_rows_are_the_first_to_meet_their_rewards(tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [{"prompt": "a", "solution": n if n == 150 else "b"} for n in range(200)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = training_rows.sample([str(file)], shuffled=True, most=ending.MOST)
    assert len(sample.rows) == sample.count == 200
    assert sample.rows[0]["solution"] == 150
