"""How fast a log is read, beside ``grep`` with the same strings: for `make bench` and a test.

``python -m tests.explain.speed [MEGABYTES]`` prints one JSON line for a plain log and one for a log
with colours on each line.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vlmguard_explain import command
from vlmguard_explain.source import log_reader, sources


def mixed(path: Path, size: int, colours: bool = False) -> None:
    """A log of ``size`` bytes: progress bars, losses, warnings; a failure at its end."""
    draw = random.Random(1)
    block = "".join(_lines(draw, colours))
    with path.open("w", encoding="utf-8") as file:
        written = 0
        while written < size:
            written += file.write(block)
        file.write("\n[rank1]: RuntimeError: Expected to mark a variable ready only once. This error\n")


def _lines(draw: random.Random, colours: bool) -> list[str]:
    lines = []
    for number in range(20000):
        line = (
            f"{{'loss': {draw.random():.4f}, 'grad_norm': {draw.random():.4f}, 'learning_rate': "
            f"{draw.random():.3e}, 'epoch': {number / 1e4:.2f}}}\n"
            if number % 3 == 0
            else f"\rTrain:  {number % 100:2d}%|{'█' * (number % 10)}| {number}/99999999 [00:01<00:10]"
        )
        if number % 50 == 0:
            line += "\nInvalidate trace cache @ step 12 and module 871: cache has only 871 modules\n"
        lines.append(f"\x1b[36m{line.rstrip()}\x1b[0m\n" if colours else line)
    return lines


def beside_grep(folder: Path, megabytes: int, colours: bool = False, rounds: int = 1) -> dict[str, float]:
    """Processor seconds of both, of the best round; the ratio; the process's memory in MB."""
    path, words = folder / "train.log", folder / "words"
    mixed(path, megabytes << 20, colours)
    wanted = command.strings()
    words.write_bytes(b"\n".join(wanted) + b"\n")
    find = log_reader.finder(wanted)
    theirs = min(_grep(path, words) for _ in range(rounds))
    mine = min(ours(path, find) for _ in range(rounds))
    return {
        "megabytes": megabytes,
        "colours": colours,
        "strings": len(wanted),
        "compiled": find.__qualname__.startswith("_compiled"),
        "grep_s": round(theirs, 3),
        "ours_s": round(mine, 3),
        "ratio": round(mine / max(theirs, 1e-3), 2),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def _grep(path: Path, words: Path) -> float:
    before = os.times().children_user + os.times().children_system
    call = ["grep", "-aFc", "-f", str(words), str(path)]
    # Not to /dev/null: there grep stops at the first hit.
    subprocess.run(call, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}, stdout=subprocess.PIPE)
    return os.times().children_user + os.times().children_system - before


def ours(path: Path, find: log_reader.Find) -> float:
    start = time.process_time()
    with path.open("rb") as file:
        log_reader.read(sources.blocks(file, log_reader.BLOCK), find)
    return time.process_time() - start


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    with tempfile.TemporaryDirectory() as folder:
        for colours in (False, True):
            print(json.dumps(beside_grep(Path(folder), size, colours)), flush=True)
