"""The command line's side of the worker: a folder of ours, a process group of its own, its events.

Whatever ends this process, the worker and its ranks end with it and the folder goes (`folder`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from vlmguard.rehearse.folder import place
from vlmguard.rehearse.request import Request

__all__ = ["Ended", "Worker", "environment", "place"]
Hear = Callable[[Mapping[str, Any]], None]
_CACHES = ("HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "MODELSCOPE_CACHE", "TORCH_HOME",
           "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "MPLCONFIGDIR",
           "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "WANDB_DIR",
           "NUMBA_CACHE_DIR")  # fmt: skip
_GONE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_TOKEN", "RANK",
         "HUGGING_FACE_HUB_TOKEN", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
         "NPROC_PER_NODE", "NNODES", "MASTER_ADDR", "MASTER_PORT", "VLMGUARD_REPORT",
         "VLMGUARD_RESOLVED", "VLMGUARD")  # fmt: skip


class Ended(Exception):
    """The worker ended without an answer; says how."""


def environment(folder: Path) -> dict[str, str]:
    """Home and every known cache lie in ``folder``; packages of the user's own stay importable."""
    given = {name: value for name, value in os.environ.items() if name not in _GONE}
    for name in ("home", "tmp", "caches"):
        (folder / name).mkdir(exist_ok=True)
    given.update({name: str(folder / "caches" / name.lower()) for name in _CACHES})
    return {
        **given,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONUSERBASE": given.get("PYTHONUSERBASE") or site.getuserbase(),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


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
