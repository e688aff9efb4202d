"""Rows that the framework itself drops before it trains, because it cannot read them or nothing of
them is left: those behind them move up, so that a reference would train on other batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlmguard.ranks import run
from vlmguard.rehearse import training_rows
from vlmguard.rehearse.fixture import REFERENCE, Scene
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.training_rows import Row, Sample

COUNTED = "Counted"
"""The error that a rank ends with, its message the number of rows, where `Scene.counts`."""


def kept(
    hooks: Any, request: Request, made: Mapping[str, Any], used: Sequence[Row], sample: Sample
) -> Sample:
    """The sample without the rows that are dropped, of those that were used alone."""
    count = _Counter(hooks, replace(request, evaluates=False), made)
    good = _good(list(used), count)
    return replace(training_rows.of(good), share=sample.share)


def _good(found: list[Row], count: Callable[[list[Row]], int]) -> list[Row]:
    """By halves: most groups hold none that is dropped."""
    number = count(found)
    if number == len(found):
        return found
    if len(found) == 1:
        return []
    half = len(found) // 2
    return _good(found[:half], count) + _good(found[half:], count)


class _Counter:
    """How many of some rows the framework keeps, by its own code."""

    def __init__(self, hooks: Any, request: Request, made: Mapping[str, Any]) -> None:
        self.hooks, self.request, self.made = hooks, request, made
        self.number = 0

    def __call__(self, found: list[Row]) -> int:
        self.number += 1
        place = Path(self.request.scratch) / f"sieve{self.number}"
        place.mkdir()
        files = [
            training_rows.write(place / name, found) for name in ("rows.jsonl", "single.jsonl")
        ]
        told = self.hooks.commands(self.request, self.made, *files, 1)
        env = {**self.request.env, **told.env}
        scene = Scene(REFERENCE, self.request.entry, told.reference, self.request.folder, place,
                      env, single=True, counts=True)  # fmt: skip
        result = run(lambda _: self.hooks.act(scene), 1, "none", self.request.limit)
        cause = result.cause
        if result.verdict == "crash" and cause is not None and cause.error == COUNTED:
            return int(cause.message or 0)
        return 0
