"""Which package of PyPI brings a module: the name that `pip install` wants, where it is known.

A module that is not here is not advised to be installed by its name: it may be a file of the
repository's own, or a stranger's package of the same name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from vlmguard_explain.lazy import lazy
from vlmguard_explain.match.catalogue import table

SHOWN = 4  # packages
INSIDE = lazy(r"-packages/([A-Za-z_]\w{1,40})/")  # the module of an installed package's file


@functools.cache
def _pypi() -> dict[str, str]:
    """Module → package."""
    known = table("packages")
    return {**{name: name for name in known["same"].split()}, **known["other"]}


def of(module: str) -> str:
    """The package that brings ``module``, or "" where it is not known."""
    return _pypi().get(module.partition(".")[0], "")


def listed(name: str) -> str:
    """The package of this name, as PyPI has it, whatever release is asked for; "" if unknown."""
    plain = re.split("[<>=!]", name.lower().replace("_", "-"))[0]
    return next((one for one in _pypi().values() if one.lower().replace("_", "-") == plain), "")


def raised_in(frames: Sequence[tuple[str, int, str]]) -> list[str]:
    """The packages of a traceback's installed frames, the raising one first; none of torch's own,
    nor where it was raised elsewhere."""
    paths = [path.replace("\\", "/").partition("-packages/")[2] for path, _, _ in reversed(frames)]
    inside = [path.partition("/")[0].removesuffix(".py") for path in paths]
    if not inside or inside[0] in ("", "torch"):
        return []
    found = dict.fromkeys(of(one) for one in inside if one not in ("", "torch"))
    return [name for name in found if name][:SHOWN]


def asking(trace: str) -> str:
    """The package of the innermost installed frame, torch's own passed over; "" if not known."""
    inside = INSIDE.findall(trace.replace("\\", "/"))
    return of(next((one for one in reversed(inside) if one != "torch"), ""))


def numbers(release: str) -> tuple[int, ...]:
    """A release as numbers."""
    return tuple(int(n) for n in re.findall(r"\d{1,6}", release)[:3])


def older(bound: str, releases: Mapping[str, str]) -> bool | None:
    """Whether the release that is told is older than the bound; None where none is told."""
    package, _, wanted = bound.partition(" ")
    release = releases.get(package, "")
    return numbers(release) < numbers(wanted) if release else None
