"""The referee's other side: takes calls from all ranks, compares them, answers or stops.

Runs in the process that forked the ranks and moves bytes only, so it needs no torch. A deadlock is
seen at once: no rank is running, and no call that waits can be completed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from vlmguard.ranks.collective_calls import Call
from vlmguard.ranks.tensor_store import Place

Packed = tuple[bytes | Place, str, tuple[int, ...]]


@dataclass
class _Posted:
    members: tuple[int, ...]
    call: Call
    given: list[Packed]
    peer: int


@dataclass
class Coordinator:
    """lines: one connection a rank, index is the rank."""

    lines: list[Connection]
    stuck: str | None = None
    _waiting: dict[int, _Posted] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)
    _mail: dict[tuple[int, int], deque[list[Packed]]] = field(default_factory=dict)

    def serve(self, seconds: float) -> None:
        """Take what arrives within ``seconds`` and answer; sets `stuck` once ranks are stuck."""
        open_lines = [line for rank, line in enumerate(self.lines) if rank not in self._gone]
        for line in wait(open_lines, seconds) if open_lines else ():
            rank = self.lines.index(line)  # type: ignore[arg-type]
            try:
                told = self.lines[rank].recv()
            except (EOFError, ConnectionError):
                self._gone.add(rank)
                continue
            self._post(rank, _Posted(*told[1:]))
        self._answer()
        if self._waiting and len(self._waiting) + len(self._gone) == len(self.lines):
            self.stuck = self.stuck or "hang"

    def _post(self, rank: int, posted: _Posted) -> None:
        if posted.call.op == "send":  # buffered, as gloo does for small tensors
            self._mail.setdefault((rank, posted.peer), deque()).append(posted.given)
            self._reply(rank, [])
        else:
            self._waiting[rank] = posted

    def _answer(self) -> None:
        for rank, posted in list(self._waiting.items()):
            if self._waiting.get(rank) is not posted:
                continue  # it was answered together with an earlier rank of its group
            if posted.call.op in ("recv", "recv_anysource"):
                self._deliver(rank, posted)
                continue
            there = [self._waiting.get(member) for member in posted.members]
            same = [p for p in there if p is not None and p.call.group == posted.call.group]
            if len({p.call.signature for p in same}) > 1:
                self.stuck = "mismatch"
            elif len(same) == len(posted.members):
                rows = [p.given for p in same]
                for member in posted.members:
                    self._reply(member, rows)

    def _deliver(self, rank: int, posted: _Posted) -> None:
        anyone = posted.call.op == "recv_anysource"
        for (source, target), letters in self._mail.items():
            if letters and target == rank and (anyone or source == posted.peer):
                self._reply(rank, [letters.popleft()])
                return

    def _reply(self, rank: int, rows: list[Any]) -> None:
        self._waiting.pop(rank, None)
        try:
            self.lines[rank].send(rows)
        except (BrokenPipeError, ConnectionError):
            self._gone.add(rank)
