"""Has cases measured by workers, a few at once, and hands on what they say."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tools.lab import envs
from tools.lab.cases import Case
from tools.lab.envs import ReleaseSet

Told = Callable[[Case, dict[str, Any]], None]


class WorkerLost(Exception):
    """A worker that could not start or died; the message has its last words."""


class Worker:
    """One process in the release set's environment."""

    def __init__(self, of: ReleaseSet) -> None:
        ours, theirs = os.pipe()
        command = [str(envs.python(of)), "-m", "tools.lab.worker", str(theirs)]
        self.process = subprocess.Popen(
            command,
            env=envs.environment(of),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            text=True,
        )
        os.close(theirs)
        self.replies = os.fdopen(ours)
        self.releases: dict[str, str] = self._reply()["ready"]

    def measure(self, case: Case, seed: int, engine: str) -> dict[str, Any]:
        """The verdict's fields, or {"fault": why there is none}."""
        assert self.process.stdin
        task = {"case": case.data(), "seed": seed, "engine": engine}
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost("the worker is gone") from None
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        line = self.replies.readline()
        if not line:
            raise WorkerLost(f"the worker ended with exit code {self.process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End it and its ranks, which die with it."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.replies.close()


def measure(
    of: ReleaseSet, cases: Sequence[Case], seed: int, engine: str, jobs: int, told: Told
) -> list[str]:
    """Measure ``cases``, ``jobs`` at once; ``told(case, fields)`` after each.

    Returns what went wrong with the lab itself, one line a case that has no verdict.
    """
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    faults: list[str] = []
    stop = threading.Event()
    lock = threading.Lock()

    def serve() -> None:
        worker: Worker | None = None
        try:
            while not stop.is_set():
                try:
                    case = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    worker = worker or Worker(of)
                    fields = worker.measure(case, seed, engine)
                except WorkerLost as error:
                    fields = {"fault": str(error)}
                    if worker is None:
                        stop.set()  # no other worker would start either
                    else:
                        worker.close()
                        worker = None
                with lock:
                    if "fault" in fields:
                        faults.append(f"{case.key}: {fields['fault']}")
                    elif not stop.is_set():
                        told(case, fields)
        finally:
            if worker:
                worker.close()

    threads = [threading.Thread(target=serve) for _ in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stop.set()
        raise
    return faults
