"""Which rank is behind the others where a log just ends, by its last step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.run import progress
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.stragglers")

LONGEST = 120  # characters of a line that is quoted


@dataclass
class Stragglers:
    """Who is behind the others."""

    ranks: tuple[int, ...] = ()
    said: list[str] = field(default_factory=list)  # what shows it, a sentence each
    lines: list[Line] = field(default_factory=list)  # their last lines
    logs: tuple[str, ...] = ()  # names of their logs, where these bear no rank
    links: int = 0  # on how many machines a log ends where NCCL starts: its links do not answer


def of(digests: Sequence[Digest]) -> Stragglers:
    """What the logs show; empty where they show nothing."""
    found = Stragglers()
    finals = [line.raw for d in digests for line in d.finals.values()]
    found.links = len({match[1] for raw in finals if (match := _P.starts.match(raw))})
    for streams in _comparable(digests):
        far = max(step for _, _, step in streams)
        late = [one for one in streams if one[2] < far]
        # Of two logs without a rank each may be a job of its own.
        two = any(line.rank is None for _, line, _ in streams)
        if len(late) * 2 + two > len(streams):
            continue
        for log, line, step in late:
            who = log if line.rank is None else f"rank {line.rank}"
            last = line.text.strip()[:LONGEST]
            found.said.append(
                f"{who} printed step {step} last, others {far}; it ends with “{last}”"
            )
            found.logs += (log,) if line.rank is None else ()
        found.lines += [line for _, line, _ in late]
    found.ranks = tuple(sorted({line.rank for line in found.lines if line.rank is not None}))
    return found


def _comparable(digests: Sequence[Digest]) -> Iterator[list[tuple[str, Line, int]]]:
    """(log, last line, last step) of the ranks of one run, where each printed a step.

    That is: the same name in each rank's folder, or names that differ by numbers.
    """
    bases = [re.split(r"[/\\]", d.source.name)[-1] for d in digests]
    groups: dict[str, list[tuple[str, Line, int | None]]] = {}
    for base, d in zip(bases, digests, strict=True):
        group = groups.setdefault(base if bases.count(base) > 1 else _P.number.sub("#", base), [])
        for rank, lines in d.recent.items():
            if lines and (rank is not None or len(d.recent) == 1):
                steps = (progress.step_of(line.text) for line in reversed(lines))
                step = next((found[0] for found in steps if found is not None), None)
                group.append((d.source.name, lines[-1], step))
    for group in groups.values():
        stepped = [(log, line, step) for log, line, step in group if step is not None]
        if len(stepped) == len(group) > 1:
            yield stepped
