"""The numbers of torch's out-of-memory message: whose memory it is."""

from __future__ import annotations

import pytest

from tests.explain import compose
from vlmguard_explain.advice import memory
from vlmguard_explain.command import main

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.20 GiB is free. {} Of the allocated memory 30.10 GiB is allocated by PyTorch, and "
    "6.90 GiB is reserved by PyTorch but unallocated."
)
THIS = "Including non-PyTorch memory, this process has 37.50 GiB memory in use."


@pytest.mark.parametrize(
    ("held", "other"),
    [
        (THIS, 40.45),  # nobody is listed: the rest of the card is not ours
        (f"Process 71 has 40.40 GiB memory in use. {THIS}", 40.4),
        # In a container this process is listed by a number that it does not know.
        ("Process 4242 has 37.50 GiB memory in use.", 0),
        ("Process 4242 has 37.50 GiB memory in use. Process 71 has 40.40 GiB memory in use.", 40.4),
        ("Process 71 has 10.40 GiB memory in use. Process 4242 has 67.50 GiB memory in use.", 10.4),
    ],
)
def test_what_other_processes_hold(held, other):
    assert memory.read(MESSAGE.format(held))["othermemory"] == pytest.approx(other)


TOLD = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.21 GiB. GPU 5 has a total "
    "capacity of 23.69 GiB of which 1.19 GiB is free. Including non-PyTorch memory, this process "
    "has 22.48 GiB memory in use. Of the allocated memory 17.77 GiB is allocated by PyTorch, and "
    "{idle} GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(("idle", "apart"), [("4.25", True), ("0.20", False)])
def test_fragmentation_is_told_apart(tmp_path, capfd, idle, apart):
    """Rank, phase, what was asked for and free; the allocator's setting first, where it helps."""
    path = tmp_path / "train.log"
    error = compose.traced(TOLD.format(idle=idle), 1, ("train", "training_step", "compute_loss"))
    path.write_text(compose.failing(3, error, rank=1, line=True))
    assert main([str(path)]) == 1
    told = capfd.readouterr().out
    assert "rank 1" in told
    assert "ran out in forward" in told
    assert "1.2 GiB were asked for, 1.2 GiB of 23.7 GiB free" in told
    assert ("fragmentation: 4.2 GiB" in told) == apart
    assert ("expandable_segments" in told.partition("  1. ")[2].partition("  2. ")[0]) == apart


OLD = (
    "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 47.54 GiB total capacity; {} MiB "
    "already allocated; 4.88 MiB free; {} MiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("allocated", "reserved", "other"), [("194.45", "686.00", 46.9), ("36000.0", "47000.0", 0)]
)
def test_old_words_tell_of_others_by_what_is_missing(allocated, reserved, other):
    told = memory.read(OLD.format(allocated, reserved))["othermemory"]
    assert told == pytest.approx(other, abs=0.1)
