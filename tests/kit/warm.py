"""Runs a command in ranks forked from a process that has imported its framework: seconds, not a
minute.

    outcome = execute("trl", ["-m", "trl.scripts.sft", *flags], folder, variables, world=2)

The first one starts that process (programs/warm.py), one with the guard armed and one without; it
serves all processes of a test session, and ends by itself. What a launcher does is not seen here:
the cases of the mission, stops, and whatever reads flags before the ranks start go through the
command itself.
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
    env: str,
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    *,
    world: int,
    timeout: float,
    quiet: float = QUIET,
    files: Mapping[str, str] | None = None,
    shown: Sequence[str] = (),
) -> runs.Outcome:
    """Run one command in its turn, in a fresh ``folder``.

    Args:
        env: an environment of constraints.txt, one of programs/warm.py's ``IMPORTS``.
        words: what each rank runs: a script, or "-m" and a module, and its flags.
        variables: the whole environment that the command would have.
        files: written into the folder that it runs in, by name.
        shown: the command that it stands for.
    """
    runs.fresh(folder)
    for name, text in (files or {}).items():
        (folder / "work" / name).write_text(text, encoding="utf-8")
    job = {
        "words": list(words),
        "world": world,
        "port": int(variables["MASTER_PORT"]),
        "folder": str(folder / "work"),
        "environment": {k: v for k, v in variables.items() if k not in ("PATH", "PYTHONPATH")},
        "timeout": timeout,
        "quiet": quiet,
    }
    with turn():
        ended = processes.Ended(**_asked(_door(env, variables), job, timeout))
    return runs.outcome(shown or words, folder, ended)


def _asked(door: Path, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(timeout + 60)
        asking.connect(str(door))
        asking.sendall(json.dumps(job).encode() + b"\n")
        answer = asking.makefile().readline()
    if not answer:
        raise RuntimeError(f"the warm process gave no answer: {door.with_suffix('.log')}")
    return json.loads(answer)  # type: ignore[no-any-return]


def _door(env: str, variables: Mapping[str, str]) -> Path:
    """The socket of the process that serves these releases, this guard and these sources."""
    guard = "off" if variables.get("VLMGUARD") == "off" else "on"
    told = hashlib.sha256(f"{_sources()}{variables['PYTHONPATH']}".encode()).hexdigest()[:8]
    door = runs.session() / f"warm-{env}-{guard}-{told}.sock"
    with runs.locked(door.with_suffix(".lock")):
        if not _answers(door):
            door.unlink(missing_ok=True)
            _start(env, door, variables)
    return door


def _answers(door: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(door)) == 0


def _start(env: str, door: Path, variables: Mapping[str, str]) -> None:
    home = door.with_suffix(".home")
    for each in ("home", "tmp", "work"):
        (home / each).mkdir(parents=True, exist_ok=True)
    own = {**variables, "HOME": str(home / "home"), "TMPDIR": str(home / "tmp")}
    own.pop("VLMGUARD_TEST_FAULT", None)
    with door.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [envs.program(env), str(PROGRAM), str(door), env],
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
