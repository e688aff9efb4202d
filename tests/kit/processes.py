"""Runs one command with a time limit and leaves none of its processes behind.

Ranks are in sessions of their own, so the command's process group is not all of it: its
descendants are looked up while it runs. Only those are ever signalled, by their id.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.pace import Pace
from vlmguard.ranks.idle_detector import IdleDetector

GRACE = 10.0
SLOW = 2.0
"""So many times its limit a run may take on a busy machine, which is then said to be too slow."""
STILL = 15.0
"""Seconds without a line, in which no rank used the processor or wanted to: they wait for ever. The
longest that anything here sleeps on purpose is 8."""
SETTLE = 1.0
"""Helpers of the interpreter end a moment after their parent: those are no survivors."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        lines: what it printed, each line with its second by `Pace`.
        progress: its seconds by `Pace`: fewer than on the wall where the machine was busy.
    """

    returncode: int
    seconds: float
    hung: bool
    survivors: Sequence[int]
    lines: Sequence[tuple[float, str]]
    progress: float = 0.0


def watch(
    command: Sequence[str],
    variables: dict[str, str],
    folder: Path,
    *,
    timeout: float,
    quiet: float,
    still: float = STILL,
) -> Ended:
    """Run to the end, or until it hangs, or for `timeout` seconds.

    It hangs where nothing was printed for `quiet` seconds and no rank moves, or for `still` seconds
    in which none moved. Seconds in which it wanted to go on and could not are not counted, up to
    `SLOW` times `timeout` in all.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    arriving: queue.Queue[tuple[float, str]] = queue.Queue()

    def listen() -> None:
        for text in process.stdout or ():
            arriving.put((pace.seconds, text.rstrip("\n")))

    pace, heard, many = Pace(), 0.0, 0
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    family: dict[int, str] = {}
    lines: list[tuple[float, str]] = []
    hung = False
    detector = IdleDetector()
    while process.poll() is None:
        family |= _descendants(process.pid)
        now = pace.look([process.pid, *family])
        while not arriving.empty():
            lines.append(arriving.get())
            heard = now
        ranks = [pid for pid in family if _is_rank(pid)]
        if len(ranks) != many:  # a process that starts or ends counts like a line
            many, heard = len(ranks), now
        silent = now - heard
        rested = min(silent, detector.seconds(ranks)) if ranks else silent
        late = time.monotonic() - started > SLOW * timeout
        if now > timeout or (silent > quiet and rested > 1.0) or (ranks and rested > still) or late:
            hung = True
            _end(process, family)
        time.sleep(0.1)
    seconds = time.monotonic() - started
    survivors = _still_there(family, SETTLE)
    for pid in survivors:
        _signal(pid, signal.SIGKILL)
    listener.join(GRACE)
    while not arriving.empty():
        lines.append(arriving.get())
    returncode = process.wait()
    return Ended(returncode, seconds, hung, [] if hung else survivors, lines, pace.seconds)


def _end(process: subprocess.Popen[str], family: dict[int, str]) -> None:
    """Ask torchrun to end its ranks; what is left after a while is ended without asking."""
    _signal(process.pid, signal.SIGTERM)
    for pid in family:
        _signal(pid, signal.SIGTERM)
    for pid in _still_there(family, GRACE):
        _signal(pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _still_there(family: dict[int, str], patience: float) -> list[int]:
    """Those that have not ended by themselves after so many seconds."""
    until = time.monotonic() + patience
    while True:
        alive = [pid for pid, birth in family.items() if _birth(pid) == birth]
        if not alive or time.monotonic() > until:
            return alive
        time.sleep(0.05)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, or nothing once it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [] if fields[0] == "Z" else fields


def _is_rank(pid: int) -> bool:
    """Whether a launcher started it as a rank; its children count as ranks, too."""
    try:
        return b"\0LOCAL_RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _birth(pid: int) -> str:
    """When the process started: the same id may later be another process."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def _descendants(root: int) -> dict[int, str]:
    """All living descendants of a process, with their birth."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: dict[int, str] = {}
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            if birth := _birth(pid):  # it may have ended since it was listed
                found[pid] = birth
                waiting.append(pid)
    return found
