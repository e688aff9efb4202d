"""Our own faults: caught, said once, and the run goes on as if we were not installed."""

from __future__ import annotations

import contextlib
import functools
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from vlmguard.core.errors import Stop
from vlmguard.runtime import stderr

T = TypeVar("T")
_said: set[str] = set()


def fault(what: str, error: BaseException, about: Iterable[Any] = ()) -> None:
    """Report VG902 for ``what``, once a process. ``about``: among them what leads to the run."""
    if what in _said:
        return
    _said.add(what)
    try:
        from vlmguard.core.findings import Finding
        from vlmguard.core.host import OTHERS
        from vlmguard.runtime import report

        where = traceback.extract_tb(error.__traceback__)[-1:] or []
        at = f" ({where[0].filename.rsplit('/', 1)[-1]}:{where[0].lineno})" if where else ""
        inside = "" if what.startswith(OTHERS) else " inside vlmguard"
        report.say(
            Finding(
                "VG902",
                "warning",
                f"{what} failed{inside}: {type(error).__name__}: {error}{at}; "
                "training goes on without it",
                scope="rank",
                advice="please report it, with this line" if inside else "tell its author",
            ),
            state=_run(about),
        )
    except Exception:
        stderr.say(f"{what} failed: {error!r}; training goes on without it")


def _run(about: Iterable[Any]) -> Any:
    from vlmguard.core import runstate

    with contextlib.suppress(Exception):
        return runstate.of_any(_leading(about))
    return None


def _leading(things: Iterable[Any]) -> Iterator[Any]:
    """These, and what is bound to those that are called."""
    for each in things:
        yield each
        if isinstance(each, types.MethodType):
            yield each.__self__
        elif isinstance(each, functools.partial):
            yield from _leading((each.func, *each.args))


def contain(what: str, call: Callable[..., T], *args: Any, default: T | None = None) -> T | None:
    """``call(*args)``; ``default`` if it raises. `Stop`, KeyboardInterrupt, SystemExit escape.

    A fault is reported for the run that ``args``, or what is bound to ``call``, lead to.
    """
    try:
        return call(*args)
    except Stop:
        raise
    except Exception as error:
        fault(what, error, (call, *args))
        return default
