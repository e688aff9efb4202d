"""``vlmguard explain`` on a log of 1 GB beside grep with the same strings."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.explain.speed import mixed
from tools.bench import measure
from vlmguard_explain import command
from vlmguard_explain.source import log_reader


def explain(quick: bool) -> dict[str, Any]:
    """Plain and coloured, by turns with grep. Processor time of whole commands."""
    compiled = log_reader.finder(command.strings()).__qualname__.startswith("_compiled")
    size = 1 << (20 if quick else 30 if compiled else 26)  # the plain one takes minutes for 64 MB
    turns, rows = measure.number(quick, 1, 3), []
    for colours, bar in ((False, 3.0), (True, 4.0)):
        with tempfile.TemporaryDirectory() as folder:
            found = _pairs(Path(folder), size, colours, turns)
        kind = "with colours on each line" if colours else "plain"
        name = f"`vlmguard explain` on {size >> 20:,} MB, {kind}, beside `grep -aF`"
        judged = None if quick or not compiled else bar
        rows.append(measure.ratio(name, found, judged).data())
        peak = measure.median([ours.peak / 2**20 for ours, _ in found])
        rows.append(
            measure.Row(f"the same, memory at most, {kind}", "MB", peak, turns, bar=200.0).data()
        )
    return {"rows": rows, "compiled": compiled}


def _pairs(folder: Path, size: int, colours: bool, turns: int) -> Any:
    log, words = folder / "train.log", folder / "words"
    _written(log, size, colours)
    words.write_bytes(b"\n".join(command.strings()) + b"\n")
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C", "VLMGUARD": "off",
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # fmt: skip
    grep = ["sh", "-c", 'grep -aF -f "$1" "$2" | wc -l', "sh", str(words), str(log)]
    peak = folder / "peak"
    ours = [sys.executable, "-S", "-c", _EXPLAIN, str(peak), sys.executable, str(log)]

    def explained() -> measure.Spent:
        spent = measure.command(ours, given)
        return measure.Spent(spent.cpu, spent.wall, int(peak.read_text()) * 1024)

    return measure.pairs(explained, lambda: measure.command(grep, given), turns)


# In a small process of its own: a child counts at least the memory of the process that started it.
# Exit status 1 says that a failure was explained.
_EXPLAIN = """
import resource, subprocess, sys
words = [sys.argv[2], "-m", "vlmguard", "explain", sys.argv[3]]
code = subprocess.call(words, stdout=subprocess.DEVNULL)
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code != 1)
"""


def _written(log: Path, size: int, colours: bool) -> None:
    """The log of the fast test, repeated; its failure comes once, at the end."""
    part = min(size, 16 << 20)
    mixed(log, part, colours)
    whole = log.read_bytes()
    body, _, end = whole.rstrip(b"\n").rpartition(b"\n")
    with log.open("wb") as file:
        for _ in range(size // part):
            file.write(body + b"\n")
        file.write(end + b"\n")
