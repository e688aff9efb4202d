"""The ledger's lines of a report, run by run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlmguard.ledger.report import figures
from vlmguard.ledger.report.record import KIND

HOW = "VLMGUARD_REPORT=run.json in front of the training command makes one"


class ReportError(Exception):
    """A report that cannot be shown: which file, what is wrong, what to do."""


def runs(path: Path) -> list[list[dict[str, Any]]]:
    """The records of each run in a report, in their order; a report may have several runs.

    Raises:
        ReportError: there is no such file, it is no report, or the ledger wrote nothing into it.
    """
    file, found = _file(path), []  # type: Path, list[list[dict[str, Any]]]
    for record in _records(file):
        if not found or not _goes_on(found[-1][-1], record):
            found.append([])
        found[-1].append(record)
    if not found:
        raise ReportError(
            f"{file}: the ledger wrote nothing into this report. It does on rank 0, unless "
            f"VLMGUARD_LEDGER=off; {HOW}"
        )
    return found


def _file(path: Path) -> Path:
    """The file of a report, by its own name or by that of the setting."""
    own = path.with_name(f"{path.stem}.rank0{path.suffix}")
    file = own if not path.exists() and own.exists() else path
    if not file.exists():
        raise ReportError(f"{path}: no such file; {HOW}")
    if not file.is_file():
        raise ReportError(f"{path}: not a file; a report is JSON lines, as in run.rank0.json")
    return file


def _records(file: Path) -> Iterator[dict[str, Any]]:
    lines = number = 0
    try:
        with file.open(encoding="utf-8") as opened:
            for number, text in enumerate(opened, 1):
                if (line := _line(file, number, text)) is not None:
                    lines += 1
                    if line.get("kind") == KIND:
                        yield line
    except UnicodeDecodeError:
        raise ReportError(f"{file}: not a report: line {number + 1} is no text") from None
    except OSError as error:
        raise ReportError(f"{file}: cannot be read: {error.strerror}") from None
    if not lines:
        raise ReportError(f"{file}: empty; {HOW}")


def _line(file: Path, number: int, text: str) -> dict[str, Any] | None:
    """One line; None for an empty one, or the last one of a run that was killed while writing."""
    try:
        found = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError) as error:
        if number > 1 and not text.endswith("\n"):
            return None
        raise ReportError(f"{file}: not a report: line {number} is no JSON ({error})") from None
    if found is not None and not isinstance(found, dict):
        raise ReportError(f"{file}: not a report: line {number} is no JSON object")
    return found


def _goes_on(before: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a record belongs to the run of the one before: steps only grow."""
    if before.get("run") != record.get("run"):
        return False
    then, now = (figures.number(each.get("step")) for each in (before, record))
    return then is None or now is None or then <= now
