"""``python -m tools.lab bisect``: finds the release of one package with which a verdict flips.

The other packages stay as one set has them. What it finds is kept in ``compat/bisected.toml``, a
row a flip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version
from rich.console import Console

from tools.lab import campaign, envs, releases, runner, toml
from tools.lab.cases import Case
from tools.lab.envs import ReleaseSet
from vlmguard.compat import verdicts
from vlmguard.core.settings import read_toml

TABLE = "bisected"
Told = tuple[str, ...]


class NoFlip(Exception):
    """The two ends do not differ, or cannot be measured; the message says which."""


@dataclass(frozen=True)
class Flip:
    """last, first: neighbouring releases; before, after: what each case came to on them."""

    last: str
    first: str
    before: Told
    after: Told
    tried: tuple[str, ...]


def between(names: Sequence[str], tell: Callable[[str], Told | None]) -> Flip:
    """The flip between the first and the last of ``names``; releases that tell None are left out.

    Raises `NoFlip`.
    """
    names = list(names)
    told = {name: tell(name) for name in dict.fromkeys((names[0], names[-1]))}
    before, after = told[names[0]], told[names[-1]]
    if before is None or after is None:
        raise NoFlip(f"{names[0]} or {names[-1]} cannot be measured")
    if before == after:
        raise NoFlip(f"{names[0]} and {names[-1]} agree: {', '.join(before)}")
    while len(names) > 2:
        middle = names[len(names) // 2]
        found = told[middle] = tell(middle)
        at = names.index(middle)
        if found is None:
            del names[at]
        elif found == before:
            names = names[at:]
        else:
            names, after = names[: at + 1], found
    tried = tuple(name for name, found in told.items() if found is not None)
    return Flip(names[0], names[1], before, after, tried)


def run(env: str, package: str, low: str, high: str, only: Sequence[str], jobs: int) -> int:
    """Bisect, print, keep; the exit code: 0, 1 without a flip, 2 for what was asked wrongly."""
    console = Console(stderr=True)
    of = envs.sets().get(env)
    if of is None or package not in of.releases:
        console.print(f"no release set {env}, or no package {package}", style="red")
        return 2
    try:
        wanted = campaign.chosen("full", only)
    except ValueError as error:
        console.print(str(error), style="red", markup=False)
        return 2

    def tell(release: str) -> Told | None:
        other = replace(of, name=f"{env}-{package}{release}", **{package: release})
        found = _measured(other, wanted, jobs, console)
        console.print(f"{package} {release}: {', '.join(found) if found else 'not measured'}")
        return found

    try:
        flip = between(releases.versions(package, low, high), tell)
    except (NoFlip, releases.Unavailable) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    keep(_row(of, package, flip, wanted))
    console.print(f"flips with {package} {flip.first}")
    return 0


def _measured(of: ReleaseSet, wanted: Sequence[Case], jobs: int, console: Console) -> Told | None:
    try:
        envs.make(of)
    except envs.CannotInstall as error:
        console.print(f"{of.name} cannot be installed: {error}", markup=False)
        return None
    found: dict[Case, dict[str, Any]] = {}
    if runner.measure(of, wanted, 0, "gloo", jobs, found.__setitem__):
        return None
    return tuple(" ".join(filter(None, (found[c]["verdict"], found[c]["kind"]))) for c in wanted)


def _row(of: ReleaseSet, package: str, flip: Flip, wanted: Sequence[Case]) -> dict[str, Any]:
    return {
        "package": package,
        "last": flip.last,
        "first": flip.first,
        "tried": sorted(flip.tried, key=Version),
        "beside": {name: release for name, release in of.releases.items() if name != package},
        "case": [
            {"case": case.key, "before": before, "after": after}
            for case, before, after in zip(wanted, flip.before, flip.after, strict=True)
            if before != after
        ],
    }


def rows() -> list[dict[str, Any]]:
    """The table's rows; none if there is no table yet."""
    file = verdicts.folder() / f"{TABLE}.toml"
    return list(read_toml(file)["flip"]) if file.exists() else []


def keep(row: dict[str, Any]) -> None:
    """Put the row in the place of one on the same package, releases and cases, or after all."""

    def same(other: dict[str, Any]) -> tuple[Any, ...]:
        cases = [case["case"] for case in other["case"]]
        return other["package"], other["first"], other["beside"], cases

    kept = [other for other in rows() if same(other) != same(row)]
    data = {"format": verdicts.FORMAT, "flip": [*kept, row]}
    toml.write(verdicts.folder() / f"{TABLE}.toml", "bisect", data)
