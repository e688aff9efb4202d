"""The rules VG5xx and VG7xx: each speaks for one failure that ``vlmguard explain`` knows.

A healthy run needs nothing of it. So codes and names are read from the names of its files, and
`vlmguard_explain` is imported at the first exception, or where a command asks for a page.
"""

from __future__ import annotations

import importlib
import importlib.util
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.runtime.faults import contain

_PLUGIN = "vlmguard_explain"
_last: tuple[weakref.ref[Failure], str] | None = None


class Explained:
    # A rule made of one entry of the catalogue. If several entries match an exception, only the
    # best one answers.

    DEFAULT = "warn"

    def __init__(self, code: str, name: str) -> None:
        self.CODE, self.NAME = code, name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The rule's page."""
        page: str = _catalogue().page(self.CODE)
        return page

    def __dir__(self) -> Iterable[str]:
        """What a plug-in host looks at; not the page, which would be made of the catalogue."""
        return ("CODE", "DEFAULT", "NAME", "on_error")

    @hookimpl
    def on_error(self, run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
        if _code(failure) != self.CODE:
            return None
        found: Finding = _catalogue().finding(self.CODE, run, batch, failure)
        return found


def _catalogue() -> Any:
    """What reads the catalogue: a plug-in, so it is looked up by its name when it is wanted."""
    return importlib.import_module(f"{_PLUGIN}.rules")


def _code(failure: Failure) -> str:
    """The code of the entry that speaks; every rule asks, and one of them reads.

    A fault in reading is reported once. The failure is not kept: it holds the frames of the run.
    """
    global _last
    if _last is None or _last[0]() is not failure:
        found = contain("explaining an exception", _read, failure, default="")
        _last = (weakref.ref(failure), found or "")
    return _last[1]


def _read(failure: Failure) -> str:
    code: str = _catalogue().speaker(failure)
    return code


def _rules() -> Iterator[Explained]:
    """``VG501-ready-once.toml`` is VG501 ``explain-ready-once``."""
    spec = importlib.util.find_spec(_PLUGIN)  # this does not import it
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted((Path(folder) / "catalogue").glob("VG*.toml")):
            code, _, words = path.stem.partition("-")
            yield Explained(code, f"explain-{words}")


RULES = tuple(_rules())
