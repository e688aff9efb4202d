"""Forks N ranks from this process, which should have imported all that they need, and waits.

This process must not have used torch's threads before (no backward, no large tensor operation):
they do not survive a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vlmguard.ranks.collective_calls import Call, frames, log_to, read, text
from vlmguard.ranks.coordinator import Coordinator
from vlmguard.ranks.idle_detector import IdleDetector
from vlmguard.ranks.outcome import Outcome, Result, conclude, parting
from vlmguard.ranks.rank_environment import RankEnvironment
from vlmguard.ranks.tensor_store import TensorStore, closed, opened

GRACE = 1.5
"""Seconds that the other ranks get to fail by themselves after one has."""
STILL = 4.0
"""Seconds without any processor time after which ranks on gloo count as hung."""
STILL_APART = 1.5
"""The same for ranks whose calls are seen to differ."""
MOVES = 2.0
"""Seconds for which ranks are looked at when their time is over."""
_POLL = 0.01
KEPT = 64 << 10
"""Bytes of a rank's output that are kept."""


def run(
    work: Callable[[int], Any],
    ranks: int = 2,
    group: str = "gloo",
    limit: float = 120.0,
    environment: RankEnvironment | None = None,
) -> Result:
    """Run ``work(rank)`` in ``ranks`` processes and say how each ended. Never raises for theirs.

    work: its return value has to be picklable. group: "gloo", "referee", or "none" for no process
    group. limit: seconds after which the ranks are killed and the verdict is "hang".
    environment: with ``ranks`` 1, the rank of many that the one process is alone
    (`vlmguard.ranks.alone`).
    """
    scratch = Path(tempfile.mkdtemp(prefix="vlmguard-ranks-"))
    started = time.monotonic()
    watched = _Watched(scratch, ranks, environment)
    try:
        watched.start(work, group)
        stuck = watched.wait(limit)
        outcomes = [watched.outcome(rank) for rank in range(ranks)]
        if environment is not None:
            outcomes = [replace(outcome, rank=environment.rank) for outcome in outcomes]
        found = conclude(outcomes, watched.calls(), stuck, time.monotonic() - started)
        return replace(found, late=watched.late)
    finally:
        watched.stop()
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass
class _Watched:
    scratch: Path
    ranks: int
    environment: RankEnvironment | None = None
    pids: list[int] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)  # rank → exit code
    referee: Coordinator | None = None
    late: bool = False  # the time was over, and the ranks were still at work

    def start(self, work: Callable[[int], Any], group: str) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pairs = [Pipe() for _ in range(self.ranks)] if group == "referee" else []
        stores = opened(len(pairs), self.scratch)
        gc.freeze()  # a rank that collects garbage would copy every page of our imports
        for rank in range(self.ranks):
            pid = os.fork()
            if not pid:
                for number, (ours, theirs) in enumerate(pairs):
                    ours.close()  # else this rank would keep the connections of others open
                    if number != rank:
                        theirs.close()
                line = (pairs[rank][1], TensorStore(rank, stores)) if pairs else None
                _rank(work, rank, self.ranks, group, self.scratch, line, self.environment)
            self.pids.append(pid)
        gc.unfreeze()
        closed(stores)
        for _, theirs in pairs:
            theirs.close()
        if pairs:
            self.referee = Coordinator([ours for ours, _ in pairs])

    def wait(self, limit: float) -> str | None:
        """Until all ended or nothing more can come; "hang", "mismatch" or None."""
        ends = time.monotonic() + limit
        detector = IdleDetector()
        failed_at: float | None = None
        stuck: str | None = None
        while len(self.codes) < self.ranks and not stuck:
            if self.referee:
                self.referee.serve(_POLL)
                stuck = self.referee.stuck
            else:
                time.sleep(_POLL)
            self._reap()
            if any(self.codes.values()):
                # One rank failed. If the others are stuck now, that is why.
                stuck = None
                failed_at = failed_at or time.monotonic()
                if time.monotonic() - failed_at > GRACE or self.referee:
                    break
            elif time.monotonic() > ends:
                stuck = "hang"
                self.late = self._moves()
            elif not self.referee and self._is_still(detector.seconds(self._alive())):
                stuck = "hang"
        if stuck and self.referee:
            self._settle()
            if any(self.codes.values()):
                stuck = None
        self.stop()
        return stuck

    def _moves(self) -> bool:
        """Whether any rank uses a processor, or wants to."""
        detector, until = IdleDetector(), time.monotonic() + MOVES
        while time.monotonic() < until:
            time.sleep(_POLL)
            seconds = detector.seconds(self._alive())
        return seconds < MOVES / 2

    def _is_still(self, seconds: float) -> bool:
        if seconds < STILL_APART:
            return False
        return seconds >= STILL or parting(self.calls()) is not None

    def calls(self) -> list[list[Call]]:
        """What each rank has asked of its group so far."""
        return [read(self.scratch / f"calls{rank}") for rank in range(self.ranks)]

    def _settle(self) -> None:
        """A rank's line closes a moment before its exit code is there."""
        until = time.monotonic() + 0.5
        while self.referee and len(self.codes) < len(self.referee._gone):
            self._reap()
            if time.monotonic() > until:
                return
            time.sleep(_POLL)

    def _alive(self) -> list[int]:
        return [pid for rank, pid in enumerate(self.pids) if rank not in self.codes]

    def _reap(self, block: bool = False) -> None:
        for rank, pid in enumerate(self.pids):
            if rank in self.codes:
                continue
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, 0 if block else os.WNOHANG)
                if done:
                    self.codes[rank] = os.waitstatus_to_exitcode(status)

    def stop(self) -> None:
        """Kill what is left of our ranks, and only those."""
        self._reap()
        for pid in self._alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            (self.scratch / f"stopped{self.pids.index(pid)}").touch()
        self._reap(block=True)

    def outcome(self, rank: int) -> Outcome:
        file = self.scratch / f"outcome{rank}"
        if file.exists():
            told: dict[str, Any] = pickle.loads(file.read_bytes())
            return Outcome(rank, **told, output=self._output(rank))
        if (self.scratch / f"stopped{rank}").exists():
            return Outcome(rank, "stopped", output=self._output(rank))
        text = self._output(rank)
        code = self.codes.get(rank)
        return Outcome(rank, "died", message=self._tail(text), exit_code=code, output=text)

    def _output(self, rank: int) -> str:
        """The end of what a rank printed; the scratch folder goes when the run is over."""
        file = self.scratch / f"output{rank}"
        if not file.exists():
            return ""
        with file.open("rb") as printed:
            printed.seek(max(file.stat().st_size - KEPT, 0))
            return printed.read().decode(errors="replace")

    def _tail(self, text: str) -> str:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        thrown = [line for line in lines if "what():" in line]
        told = thrown or [line for line in lines if "rror" in line]
        return (told or lines or ["no output"])[-1][:500]


def _rank(
    work: Callable[[int], Any],
    rank: int,
    size: int,
    group: str,
    scratch: Path,
    line: tuple[Connection, TensorStore] | None,
    environment: RankEnvironment | None,
) -> None:
    """A rank's whole life; never returns."""
    code = 1
    try:
        _die_with_parent()
        output = os.open(scratch / f"output{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(2)
        os.environ.update(_variables(rank, size) | (environment.variables() if environment else {}))
        log_to(scratch / f"calls{rank}")
        _enter(group, rank, size, scratch, line, environment)
        told = {"state": "returned", "value": work(environment.rank if environment else rank)}
        _leave(environment)
        code = 0
    except BaseException as error:
        if isinstance(error, SystemExit):  # `sys.exit` prints nothing: leave with its code
            os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
        told = {"state": "raised", "error": type(error).__name__, "message": text(error),
                "frames": frames(error)}  # fmt: skip
    try:
        whole = scratch / f"outcome{rank}.part"
        whole.write_bytes(pickle.dumps(told))
        whole.rename(scratch / f"outcome{rank}")
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = 1
    os._exit(code)


def _enter(
    group: str, rank: int, size: int, scratch: Path, line: tuple[Connection, TensorStore] | None,
    environment: RankEnvironment | None,
) -> None:  # fmt: skip
    if group == "none" and environment is None:
        return
    import torch

    torch.set_num_threads(1)
    if environment is not None:
        from vlmguard.ranks import alone

        alone.enter(environment)
    elif line is None:
        from vlmguard.ranks import gloo

        gloo.enter(rank, size, scratch)
    else:
        from vlmguard.ranks import referee

        referee.enter(rank, size, *line, scratch)


def _leave(environment: RankEnvironment | None) -> None:
    if environment is not None:
        from vlmguard.ranks import alone

        alone.leave(environment)


def _variables(rank: int, size: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "LOCAL_SIZE": str(size),  # else DeepSpeed counts NUMA nodes, and 0.14 needs numactl for it
        "TORCH_DIST_INIT_BARRIER": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        # Frameworks read it. Nothing listens there: the group is made before they start.
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": os.environ.get("MASTER_PORT", "29500"),
    }


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
