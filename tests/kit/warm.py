"""Runs `swift …` in ranks forked from a process that has imported ms-swift: seconds, not a minute.

    outcome = execute(line, folder, variables, world=2, timeout=240)

The first one starts that process (programs/warm.py), one with the guard armed and one without; it
serves all processes of a test session, and ends by itself. What a launcher does is not seen here:
the cases of the mission, stops, and whatever reads flags before the ranks start go through `swift`.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit import envs, processes, runs
from tests.kit.turns import turn

PROGRAM = runs.KIT / "programs" / "warm.py"
QUIET = 30.0
"""Seconds without a line after which the ranks count as hung: nothing is imported in them."""
START = 300.0
"""Seconds that the imports may take on a busy machine."""


def execute(
    line: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    *,
    world: int,
    timeout: float,
    quiet: float = QUIET,
) -> runs.Outcome:
    """Run one command in its turn, in a fresh ``folder``.

    Args:
        line: what follows `swift`.
        variables: the whole environment that the command would have.
    """
    runs.fresh(folder)
    job = {
        "argv": list(line),
        "world": world,
        "port": int(variables["MASTER_PORT"]),
        "folder": str(folder / "work"),
        "environment": {k: v for k, v in variables.items() if k not in ("PATH", "PYTHONPATH")},
        "timeout": timeout,
        "quiet": quiet,
    }
    with turn():
        ended = processes.Ended(**_asked(_door(variables), job, timeout))
    return runs.outcome(["swift", *line], folder, ended)


def _asked(door: Path, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(timeout + 60)
        asking.connect(str(door))
        asking.sendall(json.dumps(job).encode() + b"\n")
        answer = asking.makefile().readline()
    if not answer:
        raise RuntimeError(f"the warm process gave no answer: {door.with_suffix('.log')}")
    return json.loads(answer)  # type: ignore[no-any-return]


def _door(variables: Mapping[str, str]) -> Path:
    """The socket of the process that serves this guard and these sources."""
    guard = "off" if variables.get("VLMGUARD") == "off" else "on"
    door = runs.session() / f"warm-{guard}-{_sources()}.sock"
    with runs.locked(door.with_suffix(".lock")):
        if not _answers(door):
            door.unlink(missing_ok=True)
            _start(door, variables)
    return door


def _answers(door: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(door)) == 0


def _start(door: Path, variables: Mapping[str, str]) -> None:
    home = door.with_suffix(".home")
    for each in ("home", "tmp", "work"):
        (home / each).mkdir(parents=True, exist_ok=True)
    own = {**variables, "HOME": str(home / "home"), "TMPDIR": str(home / "tmp")}
    own.pop("VLMGUARD_TEST_FAULT", None)
    with door.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [envs.program("swift"), str(PROGRAM), str(door)],
            env=own, cwd=home / "work", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + START
    while not door.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no warm process:\n{door.with_suffix('.log').read_text()[-3000:]}")
        time.sleep(0.1)


def _sources() -> str:
    """Changes with every edit of the guard or of the stand-ins."""
    root = runs.KIT.parents[1]
    files = [root / "vlmguard", root / "plugins", runs.KIT / "standins", PROGRAM]
    found = sorted(f for top in files for f in ([top] if top.is_file() else top.rglob("*.py")))
    told = "".join(f"{file}{file.stat().st_mtime_ns}" for file in found)
    return hashlib.sha256(told.encode()).hexdigest()[:8]
