"""Faults of single releases: the words of a failure, and the pin that mends it.

A row is said where its words are there and the log names no release outside of its own; it goes
before a class's steps, since a known pin needs no inquiry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """A fault that a release has.

    Attributes:
        words: all of them stand in the exception's message or traceback.
        do: the step.
        package, since, before: whose releases have it; not said where the log tells another one.
    """

    words: tuple[str, ...]
    do: str
    package: str = ""
    since: str = ""
    before: str = ""


FAULTS = (
    Fault(
        ("NotImplementedError", "in is_async_output_supported"),
        "python -m pip install 'vllm==0.7.1': 0.7.2 takes the machine for one without a GPU here; "
        "with a TRL of 0.16 or later: python -m pip install -U 'trl[vllm]'",
        "vllm",
        before="0.8",
    ),
)


def step(facts: Any) -> str:
    """What mends the release's fault, "" where none is known."""
    return next((fault.do for fault in FAULTS if _has(fault, facts)), "")


def _has(fault: Fault, facts: Any) -> bool:
    text = f"{facts.message} {facts.trace}"
    return all(words in text for words in fault.words) and _among(fault, facts)


def _among(fault: Fault, facts: Any) -> bool:
    told = number(facts.releases.get(fault.package, ""))
    if not told:
        return True
    return number(fault.since) <= told and (not fault.before or told < number(fault.before))


def number(release: str) -> tuple[int, ...]:
    """A release's numbers, () where none is told."""
    match = re.match(r"\d{1,4}(?:\.\d{1,4}){0,3}", release)
    return tuple(int(part) for part in match[0].split(".")) if match is not None else ()
