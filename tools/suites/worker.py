"""The warm process of one side: imports once, then forks for each request.

    python worker.py MODULE…        one JSON request a line on standard input, one answer a line

A request: ``{"args": pytest's, "out": FILE, "done": [ids], "log": FILE, "quiet": SECONDS}``. The
child that runs pytest is ended with all that it started when ``out`` has not grown for ``quiet``
seconds. The answer: ``{"code": exit status, -9 where it was ended}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main(modules: list[str]) -> None:
    """Import, say so, and serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps({"code": _served(json.loads(line))}), file=answers, flush=True)


def _served(asked: dict[str, Any]) -> int:
    child = os.fork()
    if not child:
        _run(asked)
    return _watched(child, Path(asked["out"]), float(asked["quiet"]))


def _run(asked: dict[str, Any]) -> None:
    """In the child: pytest, its output in a file. Never returns."""
    os.setsid()
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(SUITES_OUT=asked["out"], SUITES_DONE=json.dumps(asked["done"]))
    code = 70
    try:
        import pytest

        code = int(pytest.main(asked["args"]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _watched(child: int, out: Path, quiet: float) -> int:
    size, since = -1, time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end(child)
            return os.waitstatus_to_exitcode(status)
        now = out.stat().st_size if out.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > quiet:
            _end(child)
            os.waitpid(child, 0)
            return -9
        time.sleep(0.2)


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
