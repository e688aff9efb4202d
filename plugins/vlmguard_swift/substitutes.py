"""Rows that ms-swift cannot encode (too long, a broken picture): it takes others in their place, by
an order that depends on where rows stand in the file. The reference reads the same rows in another
order, so here that order goes by what is in the rows.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from typing import Any


def alike() -> None:
    """For this process: the same row has the same substitute, wherever both stand."""
    for module in ("swift.dataset.utils", "swift.llm.dataset.utils"):
        try:
            kind = importlib.import_module(module).LazyLLMDataset
        except (ImportError, AttributeError):
            continue
        kind.__init__ = _made(kind.__init__)
        kind.__getitem__ = _got(kind.__getitem__)


def _made(own: Any) -> Any:
    @functools.wraps(own)
    def made(self: Any, *args: Any, **named: Any) -> None:
        own(self, *args, **named)
        rows = self.dataset
        self._idx_list = sorted(range(len(rows)), key=lambda number: _digest(rows[number]))

    return made


def _got(own: Any) -> Any:
    @functools.wraps(own)
    def got(self: Any, at: Any) -> Any:
        self._idx = 0
        return own(self, at)

    return got


def _digest(row: Any) -> str:
    """Without the column that names the row's file."""
    own = {name: value for name, value in row.items() if name != "dataset"}
    told = json.dumps(own, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()
