"""In which phase of training an exception was raised, from its traceback's functions."""

from __future__ import annotations

from vlmguard_explain.lazy import words
from vlmguard_explain.tracebacks.event import Event

_T = words("lines.phases")


def of(event: Event) -> str:
    """One of the phases of `logfacts.Facts`, or ""."""
    # requests' generate() yields what it downloads
    names = {name for path, _, name in event.frames if not path.endswith("requests/models.py")}
    closure = names.issuperset(("training_step", "optimizer_step")) and "backward" not in names
    found = next((phase for phase, functions in _T.phases if names.intersection(functions)), "")
    return "forward" if closure else str(found)  # Lightning's optimizer's step holds all
