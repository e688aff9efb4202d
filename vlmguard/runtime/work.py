"""Whether this process still does something: writes a file, computes, waits for its own program."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Literal

SHARE = 0.05
"""Of one processor. Who polls in vain for others uses less."""
Doing = Literal["writing", "computing", "nothing"]
File = tuple[int, int, str, int, int]


class Work:
    """What changed since one looked last. Costs some milliseconds a look."""

    def __init__(self) -> None:
        self._files = _written()
        self._used, self._at = time.process_time(), time.monotonic()

    def look(self) -> Doing:
        """What the process has done since: "writing" too where it waits for a disk or for a
        program that it started."""
        files, used, at = _written(), time.process_time(), time.monotonic()
        wrote = files != self._files
        computed = used - self._used > SHARE * (at - self._at)
        self._files, self._used, self._at = files, used, at
        if wrote or _waits_for_disk() or _waits_for_program():
            return "writing"
        return "computing" if computed else "nothing"


def _written() -> frozenset[File]:
    """Files that are open for writing, each with place, size and time; not what is printed."""
    found = set()
    with contextlib.suppress(OSError):  # without /proc only the processor's time tells
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError, ValueError, LookupError):
                found |= _file(int(number))
    return frozenset(found - set().union(*map(_shown, (1, 2))))


def _file(number: int) -> set[File]:
    about = os.fstat(number)
    told = Path(f"/proc/self/fdinfo/{number}").read_text().split()
    if not stat.S_ISREG(about.st_mode) or not int(told[3], 8) & os.O_ACCMODE:
        return set()
    return {(about.st_dev, about.st_ino, told[1], about.st_size, about.st_mtime_ns)}


def _shown(number: int) -> set[File]:
    try:
        return _file(number)
    except (OSError, ValueError, LookupError):
        return set()


def _waits_for_disk() -> bool:
    """Whether a thread sleeps uninterruptibly: in a write to a slow file system, above all."""
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/self/task/{task}/stat").read_text()
                if line.rpartition(")")[2].split()[0] == "D":
                    return True
    return False


def _waits_for_program() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__") == "subprocess":
            return True
        frame = frame.f_back
    return False
