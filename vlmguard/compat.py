"""The one place that names a checkpoint variant and wrap options: ``choose(run)``.

Reads ``compat/choice.toml``, so no release number stands in a rule or an adapter. A table that
cannot be read is said once and nothing is chosen: training never stops for it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from vlmguard.facts import Run
from vlmguard.faults import fault
from vlmguard.settings import read_toml

FORMAT = 1


@dataclass(frozen=True)
class Choice:
    """What works here.

    Attributes:
        use_reentrant, find_unused, static_graph: None leaves the value alone.
        verdict: "works", "untested" (a release outside what was run), "nothing" (no variant works)
            or "unknown" (no row, or no table).
        instead: the nearest combinations that do work, if nothing here does.
        evidence: where the verdict comes from.
        untested: releases that were not run, as "torch 2.17".
    """

    use_reentrant: bool | None = None
    find_unused: bool | None = None
    static_graph: bool | None = None
    verdict: str = "unknown"
    instead: tuple[str, ...] = ()
    evidence: str = ""
    untested: tuple[str, ...] = ()


def folder() -> Path:
    """The tables: inside the wheel, or the live folder of an editable install."""
    packed = Path(__file__).parent / "_compat"
    return packed if packed.is_dir() else Path(__file__).parent.parent / "compat"


@functools.cache
def table(name: str) -> dict[str, Any]:
    """One table; {} if it cannot be read or is of a newer format."""
    try:
        data = read_toml(folder() / f"{name}.toml")
        if data.get("format") != FORMAT:
            raise ValueError(f"format {data.get('format')}, this vlmguard reads {FORMAT}")
        return data
    except Exception as error:
        fault(f"compatibility table {name}", error)
        return {}


def holds(releases: dict[str, str] | Any, name: str, spec: str) -> bool:
    """Whether the release of ``name`` meets ``spec``; a package that is not there meets none."""
    try:
        # The base release: 2.6.0+cu124 and 0.19.3.dev1 are of 2.6.0 and 0.19.3.
        version = Version(Version(releases[name]).base_version)
    except (KeyError, InvalidVersion, TypeError):
        return False
    return SpecifierSet(spec).contains(version, prereleases=True)


def traits(run: Run) -> set[str]:
    """Traits of a run that a row may name."""
    found = {
        "forwards": run.forwards > 1,
        "repeats": run.repeats == "yes",
        "shared": run.shared,
    }
    return {name for name, there in found.items() if there}


def _matches(row: dict[str, Any], run: Run) -> bool:
    if run.strategy not in row["strategy"]:
        return False
    if "frozen" in row and row["frozen"] != run.frozen:
        return False
    if "idle" in row and run.idle not in row["idle"]:
        return False
    return all(
        holds(run.releases, name, row[name]) for name in ("torch", "deepspeed") if name in row
    )


def untested(run: Run) -> tuple[str, ...]:
    """Releases in play that lie outside what was run."""
    relevant = ["torch"] + (["deepspeed"] if run.strategy.startswith("zero") else [])
    measured = table("choice").get("measured", {})
    return tuple(
        f"{name} {run.releases[name]}"
        for name in relevant
        if name in run.releases
        and name in measured
        and not holds(run.releases, name, measured[name])
    )


def choose(run: Run) -> Choice:
    """The checkpoint variant and wrap options that work for this run.

    "nothing" comes with `Choice.instead`. Depends only on what is equal on all ranks.
    """
    data = table("choice")
    wrap: dict[str, Any] = next((r for r in data.get("wrap", ()) if _matches(r, run)), {})
    row = next((row for row in data.get("row", ()) if _matches(row, run)), None)
    if row is None:
        return Choice(find_unused=wrap.get("find_unused"), evidence=wrap.get("evidence", ""))
    unknown = untested(run)
    broken = traits(run) & set(row.get("unless", ()))
    if broken and run.checkpointing.on:
        return Choice(
            verdict="nothing",
            instead=tuple(row.get("instead", ())),
            evidence=row["evidence"],
            untested=unknown,
        )
    return Choice(
        use_reentrant=row["use_reentrant"] if run.checkpointing.on else None,
        find_unused=wrap.get("find_unused"),
        verdict="untested" if unknown else "works",
        evidence="; ".join(filter(None, (row["evidence"], wrap.get("evidence")))),
        untested=unknown,
    )
