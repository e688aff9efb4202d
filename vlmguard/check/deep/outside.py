"""Python's own functions connect to nothing, start no program and change no file outside of some
folders, for the rest of a process.

Native code is not held: what a library does without Python's own functions goes through.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

_ACTS = {
    "reach the network": {
        "socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0,
        "socket.gethostbyname": 0, "socket.gethostbyaddr": 0, "socket.getnameinfo": 0,
    },
    "start a process": {
        "subprocess.Popen": 1, "os.system": 0, "os.exec": 1, "os.posix_spawn": 1, "os.spawn": 2,
        "os.fork": 0, "os.forkpty": 0, "os.startfile": 0, "pty.spawn": 0,
    },
}  # fmt: skip
"""What is refused → event of the interpreter → which of its arguments says what was asked for."""
_CHANGES = {
    "os.mkdir": ((0, 2),), "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.chmod": ((0, 2),),
    "os.truncate": ((0,),), "shutil.rmtree": ((0,),), "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),), "os.rename": ((0, 2), (1, 3)), "os.utime": ((0, 3),),
    "shutil.move": ((0,), (1,)), "os.chown": ((0, 3),), "os.setxattr": ((0,),),
    "os.removexattr": ((0,),), "os.chflags": ((0,),), "socket.bind": ((1,),),
}  # fmt: skip
"""Which arguments are the paths that change, and the folders (``dir_fd``) that they begin at. A
second name of a file changes it, too: what is written there is written to the file."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READS = "?mode=ro&immutable=1"
"""Behind the address of an SQLite file: nothing is made beside it, either."""


class Refused(PermissionError, ConnectionError):
    """What was asked for and is not let."""


def refuse(
    inside: tuple[Path, ...], who: str, note: Callable[[str], None] = lambda what: None
) -> Callable[[Any], bool]:
    """From now on, for all of this process; returns what tells whether a path may be changed.

    Args:
        inside: what lies in these folders may be changed.
        who: begins the text of each refusal.
        note: hears what was refused; the caller may go on after it.
    """
    places = (*map(str, inside), "/dev", "/proc/self")
    free = tuple(f"{os.path.realpath(place)}/" for place in places)

    def ours(path: Any) -> bool:
        return f"{os.path.realpath(os.fsdecode(path))}/".startswith(free)

    def no(what: str) -> None:
        note(what)
        raise Refused(f"{who} {what}")

    def held(what: str, name: Any, beside: Any = None) -> None:
        top = f"/proc/self/fd/{beside}" if isinstance(beside, int) and beside >= 0 else ""
        path = f"/proc/self/fd/{name}" if isinstance(name, int) else name
        if isinstance(path, (str, bytes, os.PathLike)):
            path = os.path.join(top, os.fsdecode(path))
            if not ours(path):
                no(f"{what} {os.path.realpath(path)}")

    def hear(event: str, args: tuple[Any, ...]) -> None:
        for what, events in _ACTS.items():
            if event in events and args[events[event] : events[event] + 1] != (None,):
                no(f"{what}: {_words(*args[events[event] :][:1])}")
        if event == "open" and not isinstance(args[0], int):
            if {*"wax+"} & {*(args[1] or "")} or args[2] & _WRITES:
                held("write", args[0])
        elif event == "sqlite3.connect":
            file, _, query = os.fsdecode(args[0]).removeprefix("file:").partition("?")
            if file not in ("", ":memory:") and f"?{query}" != _READS:
                held("write", unquote(file))
        for number, *beside in _CHANGES.get(event, ()):
            held(event.partition(".")[2], args[number], *(args[at] for at in beside))

    def by_folder(name: str, writes: Callable[..., Any]) -> None:
        """It has no event, or one that does not tell the folder of a relative path."""
        real = getattr(os, name)

        @functools.wraps(real)
        def made(path: Any, *args: Any, dir_fd: int | None = None, **named: Any) -> Any:
            if not writes(*args, **named):
                return real(path, *args, dir_fd=dir_fd, **named)
            if dir_fd is not None:
                path = os.path.join(os.path.realpath(f"/proc/self/fd/{dir_fd}"), os.fsdecode(path))
            held("write", path)
            return real(path, *args, **named)

        setattr(os, name, made)

    by_folder("open", lambda flags, *_, **__: flags & _WRITES)
    for name in ("mkfifo", "mknod"):
        by_folder(name, lambda *_, **__: True)

    with contextlib.suppress(ImportError):  # some builds of Python are without
        import sqlite3

        connect = sqlite3.connect

        def connected(database: Any, *args: Any, **named: Any) -> Any:
            """A file that is there is read, and no more."""
            if os.path.isfile(database) and not ours(database):
                whole = quote(os.path.abspath(os.fsdecode(database)))
                database, named["uri"] = f"file:{whole}{_READS}", True
            return connect(database, *args, **named)

        sqlite3.connect = sqlite3.dbapi2.connect = connected

    BaseProcess.start = lambda self: no(f"start a process: {self.name}")  # type: ignore[method-assign]
    sys.addaudithook(hear)
    return ours


def _words(told: Any = "") -> str:
    words = told if isinstance(told, (list, tuple)) else [told]
    return " ".join(os.fsdecode(w) if isinstance(w, bytes) else str(w) for w in words)[:120]
