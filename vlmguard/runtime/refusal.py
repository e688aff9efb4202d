"""A setting that cannot be read ends a command with one line a node, not with a stack a rank."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from vlmguard.core.errors import SettingsError
from vlmguard.runtime import stderr


def in_one_line() -> None:
    """From now on, should a `SettingsError` end this process, have it end so."""
    before = sys.excepthook
    if getattr(before, "__name__", "") == _NAME:
        return

    def vlmguard_refusal(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, SettingsError):
            before(kind, error, trace)
        elif os.environ.get("LOCAL_RANK", "0") == "0":
            stderr.say(str(error))

    sys.excepthook = vlmguard_refusal


_NAME = "vlmguard_refusal"
