"""The one exception of ours that escapes containment."""

from __future__ import annotations


class Stop(RuntimeError):
    """Training must not go on.

    Args:
        message: at most three lines of a terminal. It is enough alone: a dataloader worker's
            exception is raised again from its text.

    Attributes:
        in_full: each reason and advice uncut, for torchrun's error file, which has nothing else.
    """

    def __init__(self, message: str = "", in_full: str = "") -> None:
        super().__init__(message)
        self.in_full = in_full or message


class SettingsError(Stop):
    """A setting that cannot be read, or names nothing."""


def innermost(error: BaseException) -> str:
    """What an exception was raised from, in one line: "RuntimeError: operator … does not exist"."""
    while error.__cause__ is not None:
        error = error.__cause__
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:300]
