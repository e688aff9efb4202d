"""Unknown failures of Python itself: a locale, a display, a report, a callback beside the run."""

from __future__ import annotations

import re

from vlmguard.explain import given
from vlmguard.explain.event import Event

_DISPLAY = re.compile(r"TclError: .{0,60}display|cannot connect to X server|Qt platform plugin")
_JSON = re.compile(r"Object of type (\w{1,40}) is not JSON serializable")
_HELD = re.compile(r"getattr\(self\.(\w{1,40}),")
CALLBACK = re.compile(r"\bcallback_handler\.on_\w{3,30}\(|\bcall_event\b")  # transformers'


_NOT_FINITE = re.compile(r"cannot convert float (?:infinity|NaN) to integer")
_HOLDS = re.compile(r"\bself\.\w{1,40}(?![\w.(])|(?<=int\()[a-z_]\w{0,40}(?=[ )])")


def mended(said: str, trace: str, where: str, event: Event) -> str:
    """The one change that lets it pass, or ""."""
    if "UnicodeEncodeError: 'ascii'" in said or "UnicodeDecodeError: 'ascii'" in said:
        return (
            "PYTHONUTF8=1 PYTHONIOENCODING=utf-8 in front of the command: the job's locale knows "
            "ASCII alone, and a text has more"
        )
    if _DISPLAY.search(said):
        return "MPLBACKEND=Agg in front of the command: this machine has no display to draw on"
    if not where:
        return ""
    if match := _JSON.search(said):
        return (
            f"{where}: json.dump(…, default=lambda x: x.tolist()): {match[1]} is no number of "
            "Python's own"
        )
    if "RecursionError" in said and "in __getattr__" in trace and (match := _HELD.search(trace)):
        return (
            f'{where}: if name == "{match[1]}": raise AttributeError(name), first in __getattr__: '
            "copying and unpickling ask for it before it is set"
        )
    if "requires at least one data point" in said:
        return f'{where}: float("nan") in its place where the list is empty'
    if _NOT_FINITE.search(said):
        return _finite(trace, where, event)
    return _beside(trace, where, event)


def _finite(trace: str, where: str, event: Event) -> str:
    """A number that is inf or nan, in front of the line that wants a whole one."""
    match = _HOLDS.search(given.own_line(trace).partition("=")[2] or given.own_line(trace))
    value = match[0] if match is not None else "X"
    told = "" if match is not None else " (X: what the line makes a whole number of)"
    if CALLBACK.search(trace):
        return (
            f"{where}: if not math.isfinite({value}): return, on a line in front of it (import "
            f"math){told}; or take this callback out: it fails, the training itself does not"
        )
    return f"{where}: {value} if math.isfinite({value}) else 0, in its place (import math){told}"


def _beside(trace: str, where: str, event: Event) -> str:
    """A callback of the user's own whose mail, plot or upload failed: the training did not."""
    called = CALLBACK.search(trace) is not None
    if not called or not event.frames or event.frames[-1][0] == where.rpartition(":")[0]:
        return ""
    if given.place(trace).rpartition(":")[0] == event.frames[-1][0]:
        return ""
    return (
        f"{where}: try: … except Exception as error: print(error) round this line of a callback: "
        "the training itself did not fail; then --resume_from_checkpoint with the newest folder "
        "of ls -td */checkpoint-* */*/checkpoint-*"
    )
