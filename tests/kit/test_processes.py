"""The runner must see a hang, leave nothing behind, and say what outlived a command."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.kit import pace, processes
from tests.kit.pace import Pace
from tests.kit.processes import watch

RANK = "import time; time.sleep(60)"
LAUNCHER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {rank!r}], start_new_session=True)
print("started", child.pid, flush=True)
{then}
"""


def _run(then: str, tmp_path, quiet: float = 20.0):
    script = LAUNCHER.format(rank=RANK, then=then)
    command = [sys.executable, "-c", script]
    return watch(command, dict(os.environ), tmp_path, timeout=30, quiet=quiet)


def _alive(pid: int) -> bool:
    for _ in range(20):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def test_a_hang_is_told_and_ended_in_every_session(tmp_path) -> None:
    ended = _run("child.wait()", tmp_path, quiet=1.0)
    assert ended.hung
    assert ended.progress < 15
    assert not _alive(int(ended.lines[0][1].split()[1]))


def test_a_clock_stands_still_for_what_waits_for_its_turn() -> None:
    clock = Pace()
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    code = "while True: pass"
    both = [subprocess.Popen([sys.executable, "-c", code], preexec_fn=lambda n=n: os.nice(n))
            for n in (0, 19)]  # fmt: skip
    os.sched_setaffinity(0, own)
    try:
        ends = time.monotonic() + 1.5
        while time.monotonic() < ends:
            time.sleep(0.1)
            clock.look([both[1].pid])
        used = sum(clock._ticks.values()) / 100
    finally:
        for each in both:
            each.kill()
            each.wait()
    if used > 1.2:
        pytest.skip(f"the other process did not take its turn: {used:.1f} of 1.5 s were left")
    assert clock.seconds < used + 0.3


def test_a_clock_runs_on_past_what_ended_while_it_was_looked_at() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert pace._threads(ended.pid) == []
    assert pace._threads(os.getpid())
    assert not Pace()._read([ended.pid])


def test_a_clock_runs_for_what_sleeps() -> None:
    sleeping = subprocess.Popen(["sleep", "30"])
    clock = Pace()
    until = time.monotonic() + 20
    while clock.seconds < 0.8 and time.monotonic() < until:
        time.sleep(0.1)
        clock.look([sleeping.pid])
    sleeping.kill()
    sleeping.wait()
    assert clock.seconds >= 0.8


WAITS = "import time; print('waits', flush=True); time.sleep(60)"
WORKS = """
import time
end = time.monotonic() + 4
while time.monotonic() < end:
    pass
"""


def test_ranks_that_do_nothing_are_hung_and_busy_ones_are_not(tmp_path) -> None:
    """Whatever the launcher does, which looks after them all the time."""
    looks = "import time\nwhile child.poll() is None: time.sleep(0.01)"
    for rank, hung in ((WAITS, True), (WORKS, False)):
        script = LAUNCHER.format(rank=rank, then=looks).replace(
            "start_new_session", "env={**__import__('os').environ, 'LOCAL_RANK': '0'}, "
            "start_new_session",
        )
        quiet = 20.0 if hung else 1.0
        ended = watch([sys.executable, "-c", script], dict(os.environ), tmp_path, timeout=40,
                      quiet=quiet, still=2.0)  # fmt: skip
        assert ended.hung is hung
        assert ended.progress < 15


def test_what_outlives_the_command_is_named_and_ended(tmp_path) -> None:
    ended = _run("import time; time.sleep(0.5); sys.exit(3)", tmp_path)
    child = int(ended.lines[0][1].split()[1])
    assert (ended.returncode, ended.hung) == (3, False)
    assert list(ended.survivors) == [child]
    until = time.monotonic() + 60  # killed; its new parent has not read its exit status yet
    while _alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(child)


def test_a_plain_end(tmp_path) -> None:
    command = [sys.executable, "-c", "print(1)"]
    ended = watch(command, dict(os.environ), tmp_path, timeout=9, quiet=9)
    assert (ended.returncode, ended.hung, list(ended.survivors)) == (0, False, [])
    assert [text for _, text in ended.lines] == ["1"]


def test_a_child_that_ended_while_it_was_listed_is_no_survivor(monkeypatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", RANK])
    try:
        assert child.pid in processes._descendants(os.getpid())
        monkeypatch.setattr(processes, "_birth", lambda pid: "")
        assert child.pid not in processes._descendants(os.getpid())
    finally:
        child.kill()
        child.wait()
