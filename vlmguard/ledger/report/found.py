"""What was found in a run, over all its windows: each entry once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlmguard.ledger.report import figures
from vlmguard.ledger.report.figures import Record

_NAMED = ("code", "level", "why", "what")
_NUMBERS = re.compile(r" and \d+ more|\d[\d.,]*(e[+-]?\d+)?")
_SIZED = re.compile(r"\d\s?(%|×|times)|factor of")
"""A sentence that tells the size itself."""


@dataclass(frozen=True)
class Found:
    """One entry, and the steps that it was seen in."""

    station: str
    code: str
    level: str
    told: str
    advice: str
    since: float | None
    steps: tuple[int, ...] = ()


def all_of(records: Sequence[Record]) -> list[Found]:
    """Warnings before notes, in the order of their first step."""
    known: dict[tuple[str, ...], Found] = {}
    for record in records:
        for station, entry in figures.entries(record):
            key = cause(*(str(entry.get(name) or "") for name in _NAMED))
            known[key] = _seen(known.get(key) or _first(station, entry), record)
    sure = {(code, *more) for code, level, *more in known if level != "note"}
    told = [each for (code, level, *more), each in known.items()
            if level != "note" or (code, *more) not in sure]  # fmt: skip
    return sorted(told, key=lambda found: found.level == "note")


def cause(code: str, level: str, why: str, what: str) -> tuple[str, ...]:
    """What the same entry of two windows has in common: its numbers may differ."""
    return code, level, _NUMBERS.sub("", why), _NUMBERS.sub("", what)


def _seen(found: Found, record: Record) -> Found:
    return replace(found, steps=(*found.steps, *figures.steps([record])))


def _first(station: str, entry: Mapping[str, Any]) -> Found:
    since = figures.number(entry.get("since"))
    parts = {key: str(entry.get(key) or "") for key in ("code", "level", "why", "what", "advice")}
    told = sentence(parts["why"], parts["what"], figures.number(entry.get("size")), since)
    return Found(station, parts["code"], parts["level"], told, parts["advice"], since)


def sentence(
    why: str, what: str, size: float | None, since: float | None, station: str = ""
) -> str:
    """Which tensors or rows, what is so, at which station, how large, since when; each of it
    once."""
    why = why.rstrip(". ")
    told = why if not what or what in why else f"{what}: {why}"
    more = [f"station {station}"] if station else []
    if size is not None and math.isfinite(size) and not _SIZED.search(why):
        more.append(f"off by {100 * size:.3g} %" if size >= 1e-4 else f"off by {size:.1e}")
    if since and "step" not in why:
        more.append(f"since step {since:.0f}")
    return f"{told} ({', '.join(more)})" if more else told
