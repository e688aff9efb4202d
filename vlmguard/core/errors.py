"""The one exception of ours that escapes containment."""

from __future__ import annotations


class Stop(RuntimeError):
    """Training must not go on. Takes one string: a dataloader worker re-raises it as such."""


class SettingsError(Stop):
    """A setting that cannot be read, or names nothing."""


def innermost(error: BaseException) -> str:
    """What an exception was raised from, in one line: "RuntimeError: operator … does not exist"."""
    while error.__cause__ is not None:
        error = error.__cause__
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:300]
