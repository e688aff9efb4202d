"""Findings as text for a terminal, and as JSON lines (``VLMGUARD_REPORT``).

``run``-scope findings are equal on every rank: only global rank 0 prints them. Each process
writes its own JSON file, ``.rankN`` or ``.rankN.wN`` (a dataloader worker) before the suffix: no
gathering.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from vlmguard.core.findings import Finding

_counted: Counter[str] = Counter()
_fixed: list[str] = []


def rank() -> int:
    """Global rank of this process, 0 outside a launcher."""
    value = os.environ.get("RANK", "0")
    return int(value) if value.isdigit() else 0


def worker() -> int | None:
    """Number of this dataloader worker, None in a rank's main process."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return None if info is None else int(info.id)


def who() -> str:
    """``rank 1``, or ``rank 1, worker 0``."""
    number = worker()
    return f"rank {rank()}" + ("" if number is None else f", worker {number}")


@functools.cache
def _file(number: int, worker_number: int | None, report: str) -> Path:
    path = Path(report)
    mark = f".rank{number}" + ("" if worker_number is None else f".w{worker_number}")
    return path.with_name(f"{path.stem}{mark}{path.suffix}")


def write(kind: str, data: dict[str, Any]) -> None:
    """One JSON line, if a report is asked for. A disk that is full is said once, never raised."""
    report = os.environ.get("VLMGUARD_REPORT") or _report_setting()
    if not report:
        return
    line = {"time": round(time.time(), 3), "kind": kind, "rank": rank(), "worker": worker(), **data}
    try:
        path = _file(rank(), worker(), report)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        _once(f"report {report} cannot be written: {error}")


def _report_setting() -> str:
    from vlmguard.core import settings

    try:
        return settings.get().report
    except Exception:
        return ""


@functools.cache
def _once(text: str) -> None:
    line(text)


def line(text: str) -> None:
    """One line on standard error, in one write: ranks share the terminal."""
    sys.stderr.write(f"vlmguard: {text}\n")
    sys.stderr.flush()


def say(finding: Finding, outcome: str = "", change: str = "") -> None:
    """Print and record one finding.

    Args:
        outcome: "fixed", "stopped", "warned", or "" for what was only noticed.
        change: what was done: "use_reentrant: True → False".
    """
    _counted[outcome or finding.level] += 1
    if outcome == "fixed":
        _fixed.append(finding.code)
    write("finding", {**finding.as_dict(), "outcome": outcome, "change": change})
    if finding.scope == "run" and rank() != 0:
        return
    line(text(finding, outcome, change))


def text(finding: Finding, outcome: str = "", change: str = "") -> str:
    """One finding as one or two lines."""
    mark = f" [{who()}]" if finding.scope == "rank" else ""
    head = f"{finding.code} {outcome or finding.level}{mark}: "
    body = f"{change}: {finding.why}" if change else finding.why
    keep = f" (yours to keep: {finding.code}=off)" if outcome == "fixed" else ""
    advice = f"\n    {finding.advice}" if finding.advice and outcome != "fixed" else ""
    return f"{head}{body}{keep}{advice}"


def summary(rules: int) -> str:
    """The line of the first step."""
    from vlmguard import __version__

    codes = f" ({', '.join(sorted(set(_fixed)))})" if _fixed else ""
    warnings = _counted["warning"] + _counted["warned"]
    return (
        f"vlmguard {'.'.join(__version__.split('.')[:2])}: {rules} rules watched, "
        f"{len(set(_fixed))} fixed{codes}, {warnings} warning{'' if warnings == 1 else 's'}"
    )
