"""Our own rules: one a file, and one a failure of the catalogue of `vlmguard_explain`.

A file of the ledger's is a page alone: the stations speak for it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from vlmguard.rules import known


class Page:
    # A rule without a hook: ``vg610_odd_rows.py`` is VG610 ``odd-rows``. It is imported where its
    # page is wanted.

    DEFAULT = "warn"

    def __init__(self, module: str) -> None:
        code, _, words = module.partition("_")
        self.CODE, self.NAME = code.upper(), words.replace("_", "-")
        self._module = f"{__name__}.{module}"

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The rule's page."""
        return importlib.import_module(self._module).__doc__

    def __dir__(self) -> Iterable[str]:
        """What a plug-in host looks at."""
        return ("CODE", "DEFAULT", "NAME")


_FILES = tuple(
    Page(info.name)
    if info.name.startswith("vg6")
    else importlib.import_module(f"{__name__}.{info.name}")
    for info in pkgutil.iter_modules(__path__)
    if info.name.startswith("vg")
)
RULES = (*_FILES, *known.RULES)
