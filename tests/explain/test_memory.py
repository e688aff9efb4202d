"""The numbers of torch's out-of-memory message: whose memory it is."""

from __future__ import annotations

import pytest

from vlmguard.explain import memory

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.20 GiB is free. {} Of the allocated memory 30.10 GiB is allocated by PyTorch, and "
    "6.90 GiB is reserved by PyTorch but unallocated."
)
THIS = "Including non-PyTorch memory, this process has 37.50 GiB memory in use."


@pytest.mark.parametrize(
    ("held", "other"),
    [
        (THIS, None),
        (f"Process 71 has 40.40 GiB memory in use. {THIS}", 40.4),
        # In a container this process is listed by a number that it does not know.
        ("Process 4242 has 37.50 GiB memory in use.", 0),
        ("Process 4242 has 37.50 GiB memory in use. Process 71 has 40.40 GiB memory in use.", 40.4),
        ("Process 71 has 10.40 GiB memory in use. Process 4242 has 67.50 GiB memory in use.", 10.4),
    ],
)
def test_what_other_processes_hold(held, other):
    assert (memory.read(MESSAGE.format(held)).other or None) == (other or None)
