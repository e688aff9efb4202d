"""``tools.lab table``: the records → ``compat/verdicts.toml`` and ``docs/compatibility.md``.

Both are generated as a whole and never edited; a test makes them anew from the committed records.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.lab import toml
from vlmguard.compat import cases, verdicts
from vlmguard.compat.cases import Case

FORMAT = 1
PACKAGES = ("torch", "deepspeed", "transformers", "peft")
# Letter → verdict. A verdict that has none yet gets the next of `SPARE`, in alphabetical order.
LEGEND = {
    ".": "ok",
    "-": "not run",
    "u": "unmeasurable",
    "H": "hang",
    "P": "mismatch",
    "W": "wrong",
    "D": "drift",
    "R": "crash ready_only_once",
    "A": "crash already_reduced",
    "U": "crash unfinished",
    "M": "crash recomputed_metadata",
    "I": "crash internal_assert",
    "N": "crash no_grad",
    "F": "crash inflight",
    "S": "crash assertion",
    "C": "crash other",
}
SPARE = "abcdefghijklmnopqrst"


@dataclass(frozen=True)
class Record:
    """One measured case: the set's name and releases, the case, "ok" or what went wrong."""

    name: str
    releases: Mapping[str, str]
    case: Case
    verdict: str


def records(folder: Path | None = None) -> Iterator[Record]:
    """Every packed record under ``compat/records``, set by set.

    Raises:
        ValueError: a record that is none, of a newer format, or with a value that no axis has.
    """
    folder = folder or verdicts.folder() / "records"
    for path in sorted(folder.glob("*.jsonl.xz")):
        text = lzma.decompress(path.read_bytes()).decode("utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            try:
                yield _record(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path.name}, line {number}: {error!r}") from error


def _record(data: Mapping[str, Any]) -> Record:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']}, this vlmguard reads {FORMAT}")
    case = Case(**data["case"])
    _rank(case)  # raises for a value that no axis has
    verdicts.place(case)
    kind = data.get("class") if data["verdict"] == "crash" else None
    return Record(
        data["env"],
        data["releases"],
        case,
        f"{data['verdict']} {kind}" if kind else data["verdict"],
    )


def build(found: Iterable[Record]) -> dict[str, Any]:
    """The generated table's data. Of several records of one case the last one counts."""
    sets: dict[str, dict[Case, str]] = {}
    releases: dict[str, Mapping[str, str]] = {}
    for record in found:
        sets.setdefault(record.name, {})[record.case] = record.verdict
        releases[record.name] = record.releases
    legend = _legend(verdict for each in sets.values() for verdict in each.values())
    letters = {verdict: letter for letter, verdict in legend.items()}
    return {
        "format": verdicts.FORMAT,
        "legend": legend,
        "axes": verdicts.AXES,
        "set": [
            {
                "name": name,
                "releases": {p: releases[name][p] for p in PACKAGES if p in releases[name]},
                "cells": _cells(sets[name], letters),
            }
            for name in sorted(sets, key=lambda name: _order(releases[name]))
        ],
    }


def _order(releases: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(verdicts.base(releases.get(name, "0")) for name in PACKAGES)


def _legend(found: Iterable[str]) -> dict[str, str]:
    unknown = sorted(set(found) - set(LEGEND.values()))
    if len(unknown) > len(SPARE):
        raise ValueError(f"more kinds of verdict than letters: {', '.join(unknown)}")
    return {**LEGEND, **dict(zip(SPARE, unknown, strict=False))}


def _cells(found: Mapping[Case, str], letters: Mapping[str, str]) -> dict[str, str]:
    width = len(cases.BATCHES) * len(cases.ACCUMULATION)
    empty = " ".join(["-" * width] * len(cases.MODELS))
    rows: dict[str, list[str]] = {}
    for case, verdict in sorted(found.items(), key=lambda pair: _rank(pair[0])):
        key, position = verdicts.place(case)
        rows.setdefault(key, list(empty))[position] = letters[verdict]
    return {key: "".join(row) for key, row in rows.items()}


def _rank(case: Case) -> tuple[int, ...]:
    axes = (cases.STRATEGIES, cases.CHECKPOINTING, cases.TUNING, cases.MODELS, cases.BATCHES)
    return tuple(axis.index(value) for axis, value in zip(axes, case, strict=False))


def write(found: Iterable[Record] | None = None, docs: Path | None = None) -> None:
    """Replace the table, then the page that shows it."""
    from tools.lab import page

    target = verdicts.folder() / "verdicts.toml"
    toml.write(target, "table", build(records() if found is None else found))
    verdicts.forget()
    docs = docs or _docs()
    (docs / "compatibility.md").write_text(page.page(), encoding="utf-8")


def _docs() -> Path:
    """The folder of compatibility.md: docs/, or that of the user's tables."""
    asked = os.environ.get("VLMGUARD_TABLES")
    return verdicts.folder() if asked else Path(__file__).resolve().parents[2] / "docs"
