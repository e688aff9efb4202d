"""Two clones of one package: the script is started in one, and Python imports the other."""

from __future__ import annotations

from vlmguard.explain import frames, named
from vlmguard.explain.logfacts import Facts

_CODES = ("VG552", "VG553", "VG570")  # names and arguments that the other one lacks
_NO_PACKAGE = frozenset(("src", "lib", "code", "scripts", "train", "tools", "examples"))


def step(code: str, facts: Facts) -> str:
    """The command that installs the clone in which the script lies, in place of the other; ""."""
    own = (path for path in frames.paths(facts.trace) if not frames.foreign(path))
    files = [path.split("/") for path in own if path.startswith("/") and path.endswith(".py")]
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
