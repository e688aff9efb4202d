"""One fault of a library that is settled: by which words it is known, and what mends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settled:
    """Narrower than a failure of the catalogue: one message of one library, one remedy.

    Attributes:
        said: literals, all of which are in the exception's type and message.
        steps: what to type, as actions of `Do`; one that needs a name which the log does not tell
            is left out. Of several in brackets the first that is filled is said.
        trace: literals, all of which are in the traceback.
        unless: literals, none of which is in either.
        since, mended: "package release": a release that the log tells and that is older, or not
            older, is another fault.
        why: what it means; "" leaves that to the class.
        code: its class, where the catalogue's signs tell none, or another one.
        more: the class's own steps follow.
    """

    said: tuple[str, ...]
    steps: tuple[str | tuple[str, ...], ...]
    trace: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    since: str = ""
    mended: str = ""
    why: str = ""
    code: str = ""
    more: bool = False

    def fits(self, message: str, trace: str, releases: Mapping[str, str]) -> bool:
        if not all(words in message for words in self.said):
            return False
        if not all(words in trace for words in self.trace):
            return False
        if any(words in message or words in trace for words in self.unless):
            return False
        old = self.since and _older(self.since, releases) is True
        return not old and not (self.mended and _older(self.mended, releases) is False)


def _older(bound: str, releases: Mapping[str, str]) -> bool | None:
    """Whether the release that is told is older than the bound; None where none is told."""
    package, _, wanted = bound.partition(" ")
    told = releases.get(package, "")
    return numbers(told) < numbers(wanted) if told else None


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d{1,6}", release)[:3])
