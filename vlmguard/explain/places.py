"""Which failure the place that raised an exception betrays: packages' folders, files, functions.

A package's own checks say what they are about by where they stand, in words of any release. The
longest text that the raising frame ("…/path.py in function") holds is the most exact place. "" is
a place that tells nothing, though a wider one would. Heard only where no message is known; signs
of the catalogue with `where="raised"` count in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vlmguard.explain import places_engines, places_frameworks

_TABLE = tuple(
    (text, code)
    for table in (places_frameworks.PLACES, places_engines.PLACES)
    for code, texts in table.items()
    for text in texts
)
# Whose failure it is, its caller says: a check, a validation, a decorator's shell.
HELPER = re.compile(
    r"_{0,2}(?:check|validate|assert|verify|ensure|require|raise|must|expect|post_init|wrap"
    r"|inner|decorate|error|fail)"
)
SLIPS = ("KeyError", "IndexError", "AttributeError", "TypeError", "ZeroDivisionError")
OF_CHECKS = ("VG553", "VG575", "VG588", "VG594")
LOOKED_PAST = 4  # helpers, one in another


def told(raised: str, kind: str) -> list[tuple[str, str]]:
    """(text, class) of every place that the frame bears; class "": it tells nothing.

    Of an exception of the type ``kind``: a KeyError in a package's code is no check of arguments.
    """
    slipped = kind.rpartition(".")[2] in SLIPS
    found = [(text, code) for text, code in _TABLE if _bears(text, raised)]
    return [(text, "" if slipped and code in OF_CHECKS else code) for text, code in found]


def _bears(text: str, raised: str) -> bool:
    """A folder and a function may have a file's name between them."""
    path, at, name = text.partition(" in ")
    if not at or not path.endswith(("/", "_")):
        return text in raised
    return path in raised and f" in {name}" in raised


def innermost(frames: Iterable[tuple[str, int, str]]) -> list[tuple[str, str]]:
    """(path, function) of the raising frame and, while these are helpers, of their callers."""
    kept: list[tuple[str, str]] = []
    for path, _, name in reversed(list(frames)):
        kept.append((path, name))
        if len(kept) > LOOKED_PAST or not HELPER.match(name):
            break
    return kept
