"""The folder of a rehearsal: all that is written lies in it, and it goes, however this ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "vlmguard-rehearse-"
_AFTER = """
import os, shutil, sys, time
os.read(0, 1)  # ends with the process at the other side, however it ends
for _ in range(40):  # ranks that die now may still write
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.25)
"""


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """It goes after an error, SIGTERM, SIGHUP and Ctrl-C; after ``kill -9`` by a small process that
    waits for our end, and by the next rehearsal if that one was killed as well."""
    _clear()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / "owner").write_text(_born(os.getpid()))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with contextlib.suppress(ValueError):  # this is not the main thread
        for number in before:
            signal.signal(number, _interrupted)
    warden = _warden(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _dismiss(warden)
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _warden(folder: Path) -> subprocess.Popen[bytes] | None:
    """A process of its own session, so that Ctrl-C does not reach it."""
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _AFTER, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd="/",
        )  # fmt: skip
    return None


def _dismiss(warden: subprocess.Popen[bytes] | None) -> None:
    if warden is not None and warden.stdin is not None:
        with contextlib.suppress(OSError):
            warden.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            warden.wait(30)


def _clear() -> None:
    """Folders of rehearsals that were killed, of ours alone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid() and _left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _left(folder: Path) -> bool:
    """Whether the process that made it is gone."""
    told = (folder / "owner").read_text()
    return bool(told) and _born(int(told.split()[0])) != told


def _born(pid: int) -> str:
    """ "PID TIME": the time tells it from a later process of the same number. Reads /proc."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{pid} {fields[19]}"
    return f"{pid}"
