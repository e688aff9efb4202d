"""A turn on this machine: two CPUs a run, and more runs wait, whoever started them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from tests.kit import envs

SLOTS = max(1, len(os.sched_getaffinity(0)) // 2)


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Hold one of the slots; the lock goes with the process, so a kill frees it."""
    folder = envs.HOME / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for number in range(SLOTS):
            with (folder / f"slot{number}.lock").open("w") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        time.sleep(0.2)
