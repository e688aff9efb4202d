"""What it costs ranks to agree: clients of one real TCPStore, each a thread."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.bench import measure

MINE = {
    "settings": "0" * 8,
    "rules": {},
    "releases": {"accelerate": "1.15.0", "deepspeed": "0.19.8", "peft": "0.20.0", "torch": "2.13.0",
                 "transformers": "5.23.0", "trl": "1.16.0"},
}  # fmt: skip
"""What a rank decides by; with its kinds of rows, of which there are two sets."""
ROWS = ([["image"], []], [["image", "text"], []])
WAIT = 60.0
LATE = 2.0
"""Seconds after which the last rank comes, where one is late."""
FILES = 20_000
NAMELESS = "The hostname of the client socket cannot be retrieved"
"""Said once by a process with a socket of torch's, where no name service answers."""


def agreement(quick: bool) -> dict[str, Any]:
    """All come together; one comes late."""
    sizes = (16,) if quick else (512, 2048)
    rows = [row for size in sizes for row in _rows(size, measure.number(quick, 1, 5))]
    return {"rows": [row.data() for row in rows]}


def _rows(size: int, number: int) -> list[measure.Row]:
    together = [measured(size) for _ in range(number)]
    late = [measured(size, LATE) for _ in range(number)]
    name = f"{size:,} ranks"
    judged = size >= 2048

    def row(what: str, unit: str, found: list[float], bar: float | None) -> measure.Row:
        return measure.Row(f"{name}, {what}", unit, measure.median(found), number, None, bar)

    return [
        row("messages of the rank that sent the most, all come together", "messages",
            [each["most"] for each in together], 12),
        row(f"the same, the last comes {LATE:g} s late", "messages",
            [each["most"] for each in late], 12 + LATE),
        row("messages a rank, all come together", "messages",
            [each["mean"] for each in together], None),
        row("processor time of the store's server", "ms",
            [1e3 * each["server"] for each in together], 500 if judged else None),
        row("wall time from the last one's coming until all know", "ms",
            [1e3 * each["after"] for each in together], 2000 if judged else None),
        row(f"the same, the last comes {LATE:g} s late", "ms",
            [1e3 * each["after"] for each in late], 2000 if judged else None),
    ]  # fmt: skip


def measured(size: int, late: float = 0.0) -> dict[str, float]:
    """One agreement of ``size`` ranks: messages of the rank that sent the most, and the mean;
    seconds of the server's processor; seconds after the last has come until all know.

    Raises RuntimeError where ranks decide differently, or anything is printed meanwhile.
    """
    import torch.distributed as dist

    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"  # torch looks up the name of each client
    threading.stack_size(256 * 1024)
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with silent():
        return _measured(server.port, size, late)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Raise RuntimeError for a line that is written to standard error in here, by torch's C++ code
    too; but not for what it says of any program on such a machine."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines = [line for line in file.read().splitlines() if NAMELESS not in line]
    if lines:
        raise RuntimeError(f"{len(lines)} lines were printed: {lines[0]}")


def _measured(port: int, size: int, late: float) -> dict[str, float]:
    stores = [Counted(port) for _ in range(size)]
    came, knew = [0.0] * size, [0.0] * size
    decisions: set[str] = set()

    def rank(number: int) -> None:
        if late and number == size - 1:
            time.sleep(late)
        came[number] = time.monotonic()
        decisions.add(_start(stores[number], number, size))
        knew[number] = time.monotonic()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    before = _server_spent()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = _server_spent() - before
    if len(decisions) != 1 or "known=True" not in next(iter(decisions)):
        raise RuntimeError(f"they did not agree: {decisions}")
    sent = [sum(store.sent.values()) for store in stores]
    return {
        "most": max(sent),
        "mean": sum(sent) / size,
        "server": spent,
        "after": max(knew) - max(came),
    }


def _server_spent() -> float:
    """Processor seconds of the threads that serve a store; the clients are in this process, too."""
    spent = 0.0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text()
            if "tcpstore" in name or "uv" in name:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def _start(store: Counted, number: int, size: int) -> str:
    """As `vlmguard.agree` does it before a run: one decision."""
    from vlmguard.runtime.ballot import Ballot, decide

    value = {**MINE, "rows": ROWS[number % 2]}
    return repr(decide(Ballot(store, "vlmguard/run/0/1"), number, size, value, WAIT))


class Counted:
    """A client of the store on ``port`` that counts what it sends."""

    def __init__(self, port: int) -> None:
        import torch.distributed as dist

        self.sent: Counter[str] = Counter()
        self.client = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)

    def __getattr__(self, name: str) -> Any:
        self.sent[name] += 1
        return getattr(self.client, name)
