"""A turn on this machine: as many real runs at once as there are CPUs, and more runs wait, whoever
started them. A run of two ranks keeps one and a half CPUs busy, and limits count its own progress.

If VLMGUARD_TEST_TURNS names a file, each turn adds a line to it: the test file and the seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kit import envs

SLOTS = len(os.sched_getaffinity(0))


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Hold one of the slots; the lock goes with the process, so a kill frees it.

    Whoever waits for a slot holds the door: one that has had its turn comes behind the others, or
    a worker with many runs would keep those with one waiting until their time is over.
    """
    folder = envs.HOME / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with (folder / "door.lock").open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            while not any(_taken(folder, number, held) for number in range(SLOTS)):
                time.sleep(0.05)
        began = time.monotonic()
        yield
        _note(time.monotonic() - began)


def _note(seconds: float) -> None:
    if file := os.environ.get("VLMGUARD_TEST_TURNS"):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        with Path(file).open("a", encoding="utf-8") as turns:
            turns.write(f"{test}\t{seconds:.1f}\n")


def spent(file: Path) -> dict[str, float]:
    """The seconds that real runs took, by test file, most first."""
    found: dict[str, float] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        test, _, seconds = line.rpartition("\t")
        found[test] = found.get(test, 0.0) + float(seconds)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _taken(folder: Path, number: int, held: contextlib.ExitStack) -> bool:
    handle = (folder / f"slot{number}.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return False
    held.callback(handle.close)
    return True
