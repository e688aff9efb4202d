"""Two clones of one package: the script is started in one, and Python imports the other."""

from __future__ import annotations

import re

from vlmguard.explain import named
from vlmguard.explain.logfacts import Facts

_CODES = ("VG552", "VG553", "VG570")  # names and arguments that the other one lacks
_FRAME = re.compile(r"File \"(/[^\"\n]{1,200}\.py)\", line \d{1,7}")
_NO_PACKAGE = frozenset(("src", "lib", "code", "scripts", "train", "tools", "examples"))


def step(code: str, facts: Facts) -> str:
    """The command that installs the clone in which the script lies, in place of the other; ""."""
    files = [path.split("/") for path in _FRAME.findall(facts.trace) if not _installed(path)]
    if code not in _CODES or not files:
        return ""
    for other in files[1:]:
        depth = next(
            (n for n, (a, b) in enumerate(zip(files[0], other, strict=False)) if a != b), 0
        )
        mine, its = files[0][depth + 1 : -1], other[depth + 1 : -1]
        if mine and its and mine[0] == its[0] and mine[0] not in _NO_PACKAGE:
            here, there = ("/".join(path[: depth + 1]) for path in (files[0], other))
            return _words(mine[0], named.quoted(here), named.quoted(there))
    return ""


def _words(package: str, here: str, there: str) -> str:
    if not here or not there:
        return ""
    return (
        f"python -m pip uninstall -y {package}; python -m pip install -e {here}: the script of "
        f"{here} runs with the {package} of {there}, which is installed"
    )


def _installed(path: str) -> bool:
    return "-packages/" in path or "/lib/python" in path
