"""How a rank comes down with the one exception of ours that escapes, and the node with it.

torchrun ends the other ranks once one has failed, and shows in its last block what the failed one
recorded in ``TORCHELASTIC_ERROR_FILE``. The exception may not get that far by itself: it passes
``finally`` clauses of the framework, and non-daemon threads may keep a dead rank alive, while the
others wait for it. So a thread looks where the exception is: one that is stuck on its way out is
helped; one that somebody has caught is his. A process that still writes or computes is not stuck:
a script may save its model before it raises again.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Literal

from vlmguard.core.errors import Stop
from vlmguard.runtime import ranks
from vlmguard.runtime.work import Work

GRACE = 5.0  # seconds; torchrun adds 1–3 s, so all ranks end within 10 s of the finding
COMPUTES, WRITES = 120.0, 1800.0
"""Seconds on its way out after which a process is ended that has computed all the time (so does one
that waits for its GPU), or has still written files."""
_TICK = 0.25
State = Literal["passing", "caught", "uncaught", "gone"]


def abort(error: BaseException) -> None:
    """Record ``error`` for torchrun's last block; end this rank if it is on its way out and does
    nothing for longer than `GRACE` s.

    Nothing is ended where no other rank waits, nor a process that has caught the error.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _record(error)
    elif ranks.world() < 2:
        return
    threading.Thread(
        target=_attend, args=(weakref.ref(error), GRACE), name="vlmguard-stop", daemon=True
    ).start()


def _record(error: BaseException) -> None:
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    told = error
    if isinstance(error, Stop):  # with its whole text, and not as a second exception
        told = type(error)(error.in_full).with_traceback(error.__traceback__)
        told.__suppress_context__ = True
    try:  # torch records the exception that is being handled
        raise told
    except BaseException:
        get_error_handler().record_exception(told)


def _attend(error: weakref.ref[BaseException], grace: float) -> None:
    """Look now and then where the exception is; leave the process if it has been stuck."""
    patience = _Patience(grace)
    missed = 0
    while True:
        time.sleep(min(_TICK, grace))
        found = error()
        state: State = "gone" if found is None else where(found)
        del found
        missed = missed + 1 if state == "gone" else 0
        if missed > 1:  # twice: for an instant, between two frames, no frame holds it
            return
        if state == "caught":
            patience = _Patience(grace)
        elif patience.over() and state != "gone":
            _leave()


class _Patience:
    """Since when nothing was done."""

    def __init__(self, grace: float) -> None:
        self._grace, self._work = grace, Work()
        self._begun = self._wrote = self._since = time.monotonic()

    def over(self) -> bool:
        now, doing = time.monotonic(), self._work.look()
        if doing == "writing" and now - self._begun < WRITES:
            self._wrote = self._since = now
        elif doing == "computing" and now - self._wrote < COMPUTES:
            self._since = now
        return now - self._since >= self._grace


def where(error: BaseException) -> State:
    """Where an exception of this process is.

    Returns:
        "passing": on its way out, in a ``finally``, a ``with``, or an ``except`` that ends by
        raising. "caught": in another ``except``. "uncaught": it ended the main thread, which waits
        for other threads. "gone": none of these, so somebody swallowed it.
    """
    frames = sys._current_frames()
    for thread, active in _active():
        if error in _chain(active):
            return "caught" if _is_caught(error, active, frames.get(thread)) else "passing"
    return "uncaught" if _ended_main(error, frames) else "gone"


def _active() -> Iterator[tuple[int, BaseException]]:
    """Each thread's exception that is being handled."""
    for thread, found in sys._current_exceptions().items():
        error = found[1] if isinstance(found, tuple) else found  # a triple before Python 3.12
        if error is not None:
            yield thread, error


def _chain(error: BaseException | None) -> list[BaseException]:
    """An exception, what it was raised from, and while handling what."""
    found: list[BaseException] = []
    todo = [error]
    for each in todo:
        if each is not None and not any(each is seen for seen in found):
            found.append(each)
            todo += [each.__cause__, each.__context__]
    return found


def _is_caught(error: BaseException, active: BaseException, frame: FrameType | None) -> bool:
    """Whether who handles the error is in an ``except`` clause that swallows it.

    The clause may run for hours (a second training after the first), and so may a ``finally`` that
    is stuck: what else is raised and handled in there has ours as its context and says nothing.
    Only where the frame that handled ours has ended was ours replaced, by one raised from it.
    """
    stack = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    for each in reversed(_chain(active)):
        # The outermost frame that the exception reached: if it still runs, it handles it.
        trace = each.__traceback__
        if trace is None or error not in _chain(each):
            continue
        if any(trace.tb_frame is running for running in stack):
            return _swallows(trace.tb_frame)
    return False


def _swallows(frame: FrameType) -> bool:
    """Whether the frame is in an ``except`` clause that does not end by raising, by its source;
    True where there is none."""
    lines = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    spans = _swallowing(lines)
    return spans is None or any(first <= frame.f_lineno <= last for first, last in spans)


@functools.lru_cache(maxsize=4)
def _swallowing(source: str) -> list[tuple[int, int]] | None:
    """Lines of the ``except`` clauses that do not end by raising; None without a source."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    clauses = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    ends = [(c.body[0].lineno, c.body[-1]) for c in clauses]
    kept = [(first, e.end_lineno or first) for first, e in ends if not isinstance(e, ast.Raise)]
    return kept if source else None


def _ended_main(error: BaseException, frames: dict[int, FrameType]) -> bool:
    """Whether the main thread died of the error and now only waits for others."""
    if sys.flags.interactive or hasattr(sys, "ps1"):
        return False
    if error not in _chain(getattr(sys, "last_value", None)):
        return False
    frame = frames.get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == "_shutdown"


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # end even so: the other ranks wait
            stream.flush()
    os._exit(1)
