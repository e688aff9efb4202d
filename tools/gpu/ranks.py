"""Two ranks on one device over gloo: what crashes or hangs without the guard trains with it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vlmguard.ranks import ports

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
        guard says it fixed or set; ``sums``: of both ranks' weights.
    """
    import rank  # imports all that a rank needs, before the fork

    common = {
        "WORLD_SIZE": "2", "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.free()),
        "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", "VLMGUARD": "on" if guard else "off",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{number}.log" for number in range(2)]
        children = [
            rank.forked(case, device, {**common, "RANK": str(number)}, log)
            for number, log in enumerate(logs)
        ]
        codes, hung = _wait(children, limit)
        text = "\n".join(log.read_text("utf-8", "replace") for log in logs)
    return {
        "end": _end(codes, hung, text),
        "fixed": sorted(set(re.findall(r"\b(VG\d{3})\b(?=.*\b(?:fixed|set)\b)", text))),
        "sums": sorted(set(re.findall(r"trained on \S+ to (\S+)", text))),
        "tail": "" if codes == [0, 0] else text[-1500:],
    }


def _wait(children: list[int], limit: float) -> tuple[list[int], bool]:
    """Exit codes, and whether they hung. One that fails ends the other after ten seconds."""
    until = time.monotonic() + limit
    codes: dict[int, int] = {}
    failed = False
    while len(codes) < len(children) and time.monotonic() < until:
        for child in children:
            if child not in codes and (found := os.waitpid(child, os.WNOHANG))[0]:
                codes[child] = os.waitstatus_to_exitcode(found[1])
        if not failed and any(codes.values()):
            failed, until = True, min(until, time.monotonic() + 10)
        time.sleep(0.1)
    late = [child for child in children if child not in codes]
    for child in late:
        os.kill(child, signal.SIGKILL)
        codes[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [codes[child] for child in children], bool(late) and not failed


def _end(codes: list[int], hung: bool, text: str) -> str:
    if codes == [0, 0]:
        return "trained"
    known = next((words for words in KNOWN if words in text), None)
    if known or hung:
        return known or "hang"
    lines = [line for line in text.splitlines() if re.match(r"\S*(Error|Exception)\b", line)]
    return (lines or text.splitlines() or ["no word"])[-1][:200]


def all_of(device: str, limit: float) -> Any:
    """Every case, without the guard and with it, in a process that has not used the device."""
    command = [sys.executable, __file__, device, str(limit)]
    given = {**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    done = subprocess.run(command, env=given, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(device: str, limit: str) -> None:
    found: dict[str, Any] = {}
    for case, what in CASES.items():
        found[case] = {"what": what}
        for guard, name in ((False, "off"), (True, "on")):
            found[case][name] = made = run(case, device, guard, float(limit))
            print(f"[gpu] {case}, guard {name}: {made['end']}", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
