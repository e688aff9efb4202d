"""The measured tables, and what they say of one case on one set of releases.

``compat/verdicts.toml`` is generated from the lab's records: a row for each release set, in it a
string for each strategy, variant and tuning, in it a letter for each case (see `place`).
``compat/choice.toml`` holds facts measured before the lab was written; they answer where the
records do not reach. A table that cannot be read is said once; nothing is raised.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from vlmguard.compat import folder as folder
from vlmguard.compat.cases import ACCUMULATION, BATCHES, MODELS, Case
from vlmguard.core.settings import read_toml
from vlmguard.runtime.faults import fault

FORMAT = 1
OK = "ok"
AXES = {"models": [*MODELS], "batches": [*BATCHES], "accumulation": [*ACCUMULATION]}
How = Literal["measured", "interpolated", "facts", "nearest"]


@dataclass(frozen=True)
class Seen:
    """What is known of one case.

    Attributes:
        verdict: "ok", or "crash ready_only_once", "wrong", "hang", …
        how: "measured" on exactly these releases; "interpolated" between two that agree; by the
            older "facts"; or only that of the "nearest" releases.
        where: the release sets, or the fact's evidence.
        why: what an older fact tells of the same failure.
    """

    verdict: str
    how: How
    where: str
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.verdict == OK

    @property
    def sure(self) -> bool:
        return self.how != "nearest"


@dataclass(frozen=True)
class ReleaseSet:
    """One measured release set: its name, its releases, its strings of letters."""

    name: str
    releases: Mapping[str, Version]
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Verdicts:
    """The generated table: letter → verdict, the release sets, and whether it could be read."""

    legend: Mapping[str, str]
    sets: tuple[ReleaseSet, ...]
    readable: bool = True


@functools.cache
def table(name: str) -> dict[str, Any]:
    """One table's data; {} if it cannot be read or is of a newer format."""
    try:
        data = read_toml(folder() / f"{name}.toml")
        if data.get("format") != FORMAT:
            raise ValueError(f"format {data.get('format')}, this vlmguard reads {FORMAT}")
        return data
    except Exception as error:
        fault(f"compatibility table {name}", error)
        return {}


@functools.cache
def measured() -> Verdicts:
    """The generated table, parsed; empty if it cannot be."""
    try:
        data = table("verdicts")
        axes = data.get("axes", AXES)
        if axes != AXES:
            raise ValueError(f"its axes are not those of this vlmguard: {axes}")
        return Verdicts(
            data.get("legend", {}),
            tuple(
                ReleaseSet(
                    row["name"],
                    {name: Version(release) for name, release in row["releases"].items()},
                    row["cells"],
                )
                for row in data.get("set", ())
            ),
            readable=bool(data),
        )
    except Exception as error:
        fault("compatibility table verdicts", error)
        return Verdicts({}, (), readable=False)


def forget() -> None:
    """Read the tables anew at the next question."""
    table.cache_clear()
    measured.cache_clear()
    _points.cache_clear()


def place(case: Case) -> tuple[str, int]:
    """The string that holds a case's letter, and the position in it."""
    group = len(BATCHES) * len(ACCUMULATION) + 1  # a blank after each model
    position = MODELS.index(case.model) * group
    position += BATCHES.index(case.batch) * len(ACCUMULATION)
    position += ACCUMULATION.index(case.accumulation)
    return f"{case.strategy} {case.checkpointing} {case.tuning}", position


def verdict(of: ReleaseSet, case: Case) -> str | None:
    """What was measured; None where nothing was, or nothing can be."""
    key, position = place(case)
    letter = of.cells.get(key, "")[position : position + 1]
    found = measured().legend.get(letter)
    return None if found in (None, "not run", "unmeasurable") else found


@functools.lru_cache(4096)
def base(release: str | None) -> Version | None:
    """The base release: 2.6.0+cu124 and 0.19.3.dev1 are of 2.6.0 and 0.19.3."""
    try:
        return Version(Version(release or "").base_version)
    except (InvalidVersion, TypeError):
        return None


def unfinished(release: str | None) -> bool:
    """Whether it is a development build or a release candidate: nobody measured those."""
    try:
        return Version(release or "0").is_prerelease
    except (InvalidVersion, TypeError):
        return False


def holds(releases: Mapping[str, str], name: str, spec: str) -> bool:
    """Whether the release of ``name`` meets ``spec``; a package that is not there meets none."""
    return _meets(releases.get(name), spec)


@functools.lru_cache(4096)
def _meets(release: str | None, spec: str) -> bool:
    version = base(release)
    return version is not None and SpecifierSet(spec).contains(version, prereleases=True)


Point = tuple[Version, ...]
Points = Mapping[Point, tuple[str, str]]  # releases → verdict, and the sets that gave it


def look(case: Case, releases: Mapping[str, str]) -> Seen | None:
    """What is known of ``case`` on ``releases``; None if nothing is.

    Precedence: measured on exactly these; neighbours that agree, where no fact contradicts; the
    facts; the nearest. A development build has at most what its release would have, unmeasured.
    """
    found = _look(case, releases)
    if found is not None and any(unfinished(releases.get(name)) for name in case.decided_by):
        return replace(found, how="nearest")
    return found


def _look(case: Case, releases: Mapping[str, str]) -> Seen | None:
    asked = [base(releases.get(name)) for name in case.decided_by]
    at: Point = tuple(version for version in asked if version is not None)
    fact = _fact(case, releases)
    if len(at) < len(asked):
        return fact
    points = _points(case)
    if at in points:
        found, names = points[at]
        same = fact is not None and fact.verdict == found != OK
        return Seen(found, "measured", names, fact.where if fact and same else "")
    between = _between(points, at, case.decided_by)
    if between is None:
        return fact if fact is not None and fact.sure else _nearest(points, at) or fact
    if fact is None or not fact.sure or fact.ok == between.ok:
        return between
    worse = between if fact.ok else fact
    return Seen(worse.verdict, "nearest", f"{between.where}, against earlier facts")


@functools.cache
def _points(case: Case) -> Points:
    """Where the case was measured; of sets alike in all that can matter to it, the worst."""
    points: dict[Point, tuple[str, str]] = {}
    for each in measured().sets:
        found = verdict(each, case)
        if found is None or any(name not in each.releases for name in case.decided_by):
            continue
        at = tuple(each.releases[name] for name in case.decided_by)
        if at not in points or points[at][0] == OK:
            points[at] = (found, each.name)
    return points


def _between(points: Points, at: Point, axes: Sequence[str]) -> Seen | None:
    """The verdict of all neighbours, if they lie on all sides and agree."""
    if not _surrounded(points, at, axes):
        return None
    older = [p for p in points if all(a <= b for a, b in zip(p, at, strict=True))]
    newer = [p for p in points if all(a >= b for a, b in zip(p, at, strict=True))]
    if not older or not newer:
        return None
    lows = [p for p in older if not any(q != p and _within(q, p, at) for q in older)]
    highs = [p for p in newer if not any(q != p and _within(q, at, p) for q in newer)]
    beside = [p for p in points if _beside(p, points, at)]
    neighbours = {*lows, *highs, *beside}
    verdicts = {points[p][0] for p in neighbours}
    if len({found == OK for found in verdicts}) > 1:
        return None
    names = dict.fromkeys(points[p][1] for p in sorted({*lows, *highs}))
    return Seen(sorted(verdicts)[0], "interpolated", ", ".join(names))


def _surrounded(points: Iterable[Point], at: Point, axes: Sequence[str]) -> bool:
    """Whether all four corners of torch and deepspeed were measured: an old torch with a new
    deepspeed lies between two sets that work, and need not import."""
    if "deepspeed" not in axes:
        return True
    one, other = axes.index("torch"), axes.index("deepspeed")
    corners = {
        (first, second)
        for p in points
        for first in (p[one] <= at[one], p[one] < at[one])
        for second in (p[other] <= at[other], p[other] < at[other])
    }
    return len(corners) == 4


def _within(point: Point, low: Point, high: Point) -> bool:
    return all(a <= b <= c for a, b, c in zip(low, point, high, strict=True))


def _beside(point: Point, points: Iterable[Point], at: Point) -> bool:
    """Whether, axis by axis, no measured release lies between ``point`` and ``at``."""
    return all(
        not any(min(a, b) < q[axis] < max(a, b) for q in points)
        for axis, (a, b) in enumerate(zip(point, at, strict=True))
    )


def _nearest(points: Points, at: Point) -> Seen | None:
    """The verdict of the fewest measured releases away; of two equally far, the older one."""

    def distance(point: Point) -> int:
        return sum(
            len({q[axis] for q in points if min(a, b) < q[axis] <= max(a, b)})
            for axis, (a, b) in enumerate(zip(point, at, strict=True))
        )

    if not points:
        return None
    found = min(points, key=lambda point: (distance(point), point))
    return Seen(*points[found][:1], "nearest", points[found][1])


def _fact(case: Case, releases: Mapping[str, str]) -> Seen | None:
    for row in _about(case):
        if _on(row, releases):
            known = all(reached(releases, name) for name in case.decided_by if name in releases)
            certain = known and row.get("certain", True)
            return Seen(row["verdict"], "facts" if certain else "nearest", row["evidence"])
    return None


def _about(case: Case) -> Iterator[Mapping[str, Any]]:
    """The facts about a case, whatever the releases."""
    asked = case._asdict().items()
    for row in table("choice").get("row", ()):
        for axis, value in asked:
            if axis in row and value not in row[axis]:
                break
        else:
            yield row


def _on(row: Mapping[str, Any], releases: Mapping[str, str]) -> bool:
    if not all(holds(releases, name, row[name]) for name in ("torch", "deepspeed") if name in row):
        return False
    # Few queries give its release. Where it is missing, a row that names one matches.
    asked = "transformers" in row and "transformers" in releases
    return not asked or holds(releases, "transformers", row["transformers"])


def notes(strategy: str, releases: Mapping[str, str]) -> Iterator[str]:
    """What was seen beside the verdicts, on another process group than theirs."""
    for row in table("choice").get("note", ()):
        if strategy in row["strategy"] and holds(releases, "deepspeed", row["deepspeed"]):
            yield row["text"]


def reached(releases: Mapping[str, str], name: str) -> bool:
    """Whether the release of ``name`` lies within what was run, by the records or the facts."""
    if unfinished(releases[name]):
        return False
    facts = table("choice").get("measured", {})
    if name in facts and holds(releases, name, facts[name]):
        return True
    known = [each.releases[name] for each in measured().sets if name in each.releases]
    version = base(releases[name])
    if not known:
        return name not in facts
    return version is not None and min(known) <= version <= max(known)


def releases_of(name: str) -> list[Version]:
    """Every release of a package that was measured or that a fact names, oldest first."""
    known = {each.releases[name] for each in measured().sets if name in each.releases}
    for row in table("choice").get("row", ()):
        known |= {Version(spec.version) for spec in SpecifierSet(row.get(name, ""))}
    return sorted(known)


def readable() -> bool:
    """Whether both tables could be read."""
    return measured().readable and bool(table("choice"))
