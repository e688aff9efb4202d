"""How long a command's own ending takes: its last batch, its next epoch, every row's reward."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from vlmguard.rehearse import ending, training_rows
from vlmguard.rehearse.argv import Argv
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


def test_every_row_meets_its_reward():
    argv = Argv(["--num_generations", "2", "--per_device_train_batch_size", "1"])
    assert ending._all_rows(argv, 24, 2) == 25
