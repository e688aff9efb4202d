"""Two ranks on one device over gloo: what crashes or hangs without the guard trains with it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CASES = {
    "lora": "LoRA in both towers, reentrant checkpointing, DDP",
    "two_forwards": "two forwards before one backward, reentrant checkpointing, DDP",
    "mixed": "one rank with an image, one without, DDP",
}
KNOWN = (
    "Expected to mark a variable ready only once",
    "Expected to have finished reduction",
    "has already been reduced",
)


def run(case: str, device: str, guard: bool, limit: float) -> dict[str, Any]:
    """Both ranks to their end, or to the limit in seconds.

    Returns:
        ``end``: "trained", "hang", a known message or the last line; ``fixed``: codes that the
        guard says it fixed; ``sums``: of both ranks' weights.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        **{key: value for key, value in os.environ.items() if key != "VLMGUARD"},
        "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1", "VLMGUARD": "on" if guard else "off",
    }  # fmt: skip
    command = [sys.executable, str(HERE / "rank.py"), case, device]
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{rank}.log" for rank in range(2)]
        children = []
        for rank, log in enumerate(logs):
            with log.open("wb") as out:
                variables = {**common, "RANK": str(rank)}
                children.append(
                    subprocess.Popen(
                        command, env=variables, stdout=out, stderr=out, start_new_session=True
                    )
                )
        hung = _wait(children, limit)
        text = "\n".join(log.read_text("utf-8", "replace") for log in logs)
    codes = [child.returncode for child in children]
    return {
        "end": _end(codes, hung, text),
        "fixed": sorted(set(re.findall(r"\b(VG\d{3})\b(?=.*\bfixed\b)", text))),
        "sums": sorted(set(re.findall(r"trained on \S+ to (\S+)", text))),
        "tail": "" if codes == [0, 0] else text[-1500:],
    }


def _wait(children: list[subprocess.Popen[bytes]], limit: float) -> bool:
    """Wait for both; one that fails ends the other after ten seconds. Whether none did in time."""
    until = time.monotonic() + limit
    failed = False
    while any(child.poll() is None for child in children) and time.monotonic() < until:
        if not failed and any(child.poll() for child in children):
            failed, until = True, min(until, time.monotonic() + 10)
        time.sleep(0.2)
    late = [child for child in children if child.poll() is None]
    for child in late:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return bool(late) and not failed


def _end(codes: list[int], hung: bool, text: str) -> str:
    if codes == [0, 0]:
        return "trained"
    known = next((words for words in KNOWN if words in text), None)
    if known or hung:
        return known or "hang"
    lines = [line for line in text.splitlines() if re.match(r"\S*(Error|Exception)\b", line)]
    return (lines or text.splitlines() or ["no word"])[-1][:200]


def all_of(device: str, limit: float) -> dict[str, Any]:
    """Every case, without the guard and with it."""
    return {
        case: {
            "what": what,
            "off": run(case, device, False, limit),
            "on": run(case, device, True, limit),
        }
        for case, what in CASES.items()
    }
