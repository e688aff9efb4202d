"""All or nothing: changes to a framework's objects that can be taken back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from vlmguard.core.errors import Stop
from vlmguard.runtime.faults import contain


class Transaction:
    """Records each change as it is made; an exception inside ``with`` takes them all back. One that
    cannot be taken back is reported, and the others are taken back all the same.

    Attributes:
        changes: kind of change ("variant", "freeze", "loss", "blank") → "what: from → to".
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.changes: dict[str, list[str]] = {}

    def set(self, owner: Any, name: str, value: Any, say: str = "", kind: str = "variant") -> None:
        """Set an attribute, remembering what it was."""
        before, own = getattr(owner, name, None), name in getattr(owner, "__dict__", ())
        had = hasattr(owner, name)
        setattr(owner, name, value)
        shadows = not own and name in getattr(owner, "__dict__", ())

        def undo() -> None:
            if shadows or not had:
                delattr(owner, name)  # then the class's attribute is seen again
            else:
                setattr(owner, name, before)

        self.did(undo, say, kind)

    def did(self, undo: Callable[[], None], say: str = "", kind: str = "variant") -> None:
        """Note a change made elsewhere, and how to take it back."""
        self._undo.append(undo)
        told = self.changes.setdefault(kind, []) if say else []
        if say not in told:  # arguments and model may change in the same way
            told.append(say)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            for undo in reversed(self._undo):
                with contextlib.suppress(Stop):
                    contain("taking back a change", undo)
