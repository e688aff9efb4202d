"""The command line's side of the worker: a folder of ours, a process group of its own, its events.

Whatever ends this process, the worker and its ranks end with it and the folder goes (`folder`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from vlmguard.check.deep.sandbox import environment
from vlmguard.rehearse.folder import place
from vlmguard.rehearse.request import Request

__all__ = ["Ended", "Worker", "environment", "place"]
Hear = Callable[[Mapping[str, Any]], None]


class Ended(Exception):
    """The worker ended without an answer; says how."""


class Worker:
    """A warm process for one framework; `ask` may be called again and again."""

    def __init__(self, adapter: str, folder: Path) -> None:
        self._log = (folder / "worker.log").open("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vlmguard.rehearse.worker", adapter],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=environment(folder), cwd=folder, start_new_session=True,
        )  # fmt: skip

    def ask(self, request: Request, hear: Hear) -> dict[str, Any]:
        """The answer to one request; ``hear`` gets every event. Raises `Ended`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request.as_data()) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["event"] == "answer":
                answer: dict[str, Any] = told["answer"]
                return answer
            hear(told)
        raise Ended(self._last_words())

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return f"the rehearsing process ended ({code}): {lines[-1] if lines else 'no output'}"

    def close(self) -> None:
        """End the process and all its ranks."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()
