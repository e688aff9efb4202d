"""A rank that runs a user's own script: it starts no process, reaches no network, and writes to no
file outside the folder of the rehearsal.

A folder or a new file that the script makes elsewhere is made in that folder in its place, so that
a script which prepares its output goes on. All else is refused with a `Refused`, an OSError.
"""

from __future__ import annotations

import builtins
import functools
import io
import multiprocessing.process
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
           "os.forkpty", "pty.spawn")  # fmt: skip
_CHANGES = {"os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.truncate": (0,),
            "os.link": (1,), "os.symlink": (1,), "os.chmod": (0,), "os.chown": (0,),
            "os.mkdir": (0,), "os.utime": (0,), "shutil.rmtree": (0,)}  # fmt: skip
"""Event of the interpreter → which of its arguments name what is changed."""
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FREE = ("/dev/", "/proc/self/")


class Refused(PermissionError):
    """What the script asked for, and does not get in a rehearsal."""


def close_off(home: Path, overlay: Path, note: Callable[[str], None]) -> None:
    """For the rest of this process, which belongs to the rehearsal alone.

    Args:
        home: what lies in it may be written.
        overlay: a folder in ``home`` for what the script makes elsewhere.
        note: hears of each thing that was refused; the script may go on after it.
    """
    roots = tuple(os.path.realpath(place) + "/" for place in (home, overlay))

    def ours(path: Any) -> bool:
        if isinstance(path, int):
            return True
        whole = os.path.realpath(os.fsdecode(path))
        return whole.startswith((*roots, *_FREE)) or f"{whole}/" in roots

    def refuse(what: str) -> None:
        note(what)
        raise Refused(f"a rehearsal does not let your script {what}")

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = any(sign in mode for sign in "wax+") if mode else flags & _WRITES
            if writes and not ours(path):
                refuse(f"write {os.fsdecode(path)}")
        elif event in _CHANGES:
            for at in _CHANGES[event]:
                if not ours(args[at]):
                    refuse(f"{event.partition('.')[2]} {os.fsdecode(args[at])}")
        elif event in _STARTS:
            told = args[1] if event == "subprocess.Popen" else args[0] if args else ""
            refuse(f"start a process: {_words(told)}")
        elif event in _NETWORK:
            address = args[1] if event == "socket.connect" else args[0]
            if not isinstance(address, (str, bytes)) or event != "socket.connect":
                refuse(f"reach the network: {address}")

    _redirect(overlay, ours)
    _compiled(overlay, ours)

    def started(self: Any) -> None:
        refuse(f"start a process: {self.name}")

    multiprocessing.process.BaseProcess.start = started  # type: ignore[method-assign]
    sys.addaudithook(hear)


def _words(told: Any) -> str:
    words = told if isinstance(told, (list, tuple)) else [told]
    return " ".join(os.fsdecode(word) if word else "" for word in words)[:120]


def _compiled(overlay: Path, ours: Callable[[Any], bool]) -> None:
    """What writes files in compiled code, of which the interpreter hears nothing."""
    for module, name, at in (("torch", "save", 1), ("safetensors.torch", "serialize_file", 1),
                             ("safetensors.numpy", "serialize_file", 1)):  # fmt: skip
        found = sys.modules.get(module)
        own = getattr(found, name, None)
        if own is None:
            continue

        @functools.wraps(own)
        def written(*args: Any, _own: Any = own, _at: int = at, **named: Any) -> Any:
            given = list(args)
            keys = [key for key in ("f", "filename") if key in named]
            file = given[_at] if len(given) > _at else named[keys[0]] if keys else None
            if isinstance(file, (str, os.PathLike)) and not ours(file):
                there = inside(overlay, file)
                os.makedirs(os.path.dirname(there), exist_ok=True)
                if len(given) > _at:
                    given[_at] = there
                else:
                    named[keys[0]] = there
            return _own(*given, **named)

        setattr(found, name, written)


def inside(overlay: Path, path: Any) -> str:
    """Where a file that the script makes elsewhere is made."""
    return f"{overlay}{os.path.abspath(os.fsdecode(path))}"


def _redirect(overlay: Path, ours: Callable[[Any], bool]) -> None:
    """Folders and files that are made outside are made in ``overlay``, and found there again."""
    plain_open, make = io.open, os.mkdir

    def opened(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        if isinstance(file, (str, bytes, os.PathLike)) and not ours(file):
            there = inside(overlay, file)
            if any(sign in mode for sign in "wx") or os.path.exists(there):
                os.makedirs(os.path.dirname(there), exist_ok=True)
                file = there
        return plain_open(file, mode, *args, **named)

    def made(path: Any, *args: Any, **named: Any) -> None:
        if "dir_fd" in named or ours(path) or os.path.exists(path):
            make(path, *args, **named)
        else:
            os.makedirs(inside(overlay, path), exist_ok=True)

    builtins.open = opened  # type: ignore[assignment]
    io.open = opened  # type: ignore[assignment]
    os.mkdir = made
