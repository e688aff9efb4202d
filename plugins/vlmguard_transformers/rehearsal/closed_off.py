"""A rank that runs a user's own script: it starts no process, reaches no network, and writes to no
file outside the folder of the rehearsal.

A folder or a new file that the script makes elsewhere is made in that folder in its place, so that
a script which prepares its output goes on. All else is refused with a `Refused`, an OSError.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlmguard.check.deep.outside import Refused as Refused
from vlmguard.check.deep.outside import refuse


def close_off(home: Path, overlay: Path, note: Callable[[str], None]) -> None:
    """For the rest of this process, which belongs to the rehearsal alone.

    Args:
        home: what lies in it may be written.
        overlay: a folder in ``home`` for what the script makes elsewhere.
        note: hears of each thing that was refused; the script may go on after it.
    """
    ours = refuse((home, overlay), "a rehearsal does not let your script", note)
    make = os.mkdir

    def instead(path: Any, makes: bool) -> Any:
        there = f"{overlay}{os.path.abspath(os.fsdecode(path))}"
        if makes:
            os.makedirs(os.path.dirname(there), exist_ok=True)
        return there if makes or os.path.exists(there) else path

    def made(path: Any, *args: Any, **named: Any) -> None:
        if "dir_fd" in named or ours(path) or os.path.exists(path):
            make(path, *args, **named)
        else:
            os.makedirs(instead(path, True), exist_ok=True)

    def redirect(module: str, name: str, at: int, makes: Callable[..., bool]) -> None:
        own = getattr(sys.modules.get(module), name, None)

        def called(*args: Any, **named: Any) -> Any:
            given = {**dict(enumerate(args)), **named}
            for key in (at, "f", "file", "filename", "database"):
                path = given.get(key)
                if isinstance(path, (str, bytes, os.PathLike)) and not ours(path):
                    given[key] = instead(path, makes(*args, **named))
            return own(*[given.pop(number) for number in range(len(args))], **given)

        if own is not None:
            setattr(sys.modules[module], name, functools.wraps(own)(called))

    os.mkdir = made
    for module in ("builtins", "io"):
        redirect(module, "open", 0, lambda file, mode="r", *_, **__: bool({*mode} & {*"wx"}))
    for module, name in (("torch", "save"), ("safetensors.torch", "serialize_file"),
                         ("safetensors.numpy", "serialize_file")):  # fmt: skip
        redirect(module, name, 1, lambda *_, **__: True)  # compiled code: nothing is heard of it
    for module in ("sqlite3", "sqlite3.dbapi2"):
        redirect(module, "connect", 0, _new_file)


def _new_file(database: Any, *_: Any, uri: bool = False, **__: Any) -> bool:
    """Whether SQLite is asked for a file that is not there: not for memory, nor by an address."""
    return not uri and str(database)[:1] not in ":" and not os.path.exists(database)
