"""The process of `deep`: a framework's argument classes, with sockets and foreign files refused."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.check.deep import sandbox
from vlmguard.ranks.rank_environment import RankEnvironment

_SOCKETS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
            "socket.bind", "socket.sendmsg")  # fmt: skip
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "os.forkpty", "os.startfile", "pty.spawn")  # fmt: skip
_FILES = {
    "os.mkdir": ((0, 2),), "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.chmod": ((0, 2),),
    "os.truncate": ((0, None),), "shutil.rmtree": ((0, None),), "os.link": ((1, 3),),
    "os.symlink": ((1, 2),), "os.rename": ((0, 2), (1, 3)), "os.utime": ((0, 3),),
    "shutil.move": ((0, None), (1, None)), "os.chown": ((0, 3),), "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),), "os.chflags": ((0, None),),
}  # fmt: skip
"""Events that change a folder: which of their arguments are the paths that change, and the folders
(``dir_fd``) that these begin at."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = "vlmguard check --deep allows no"


def refuse(folder: str) -> None:
    """From now on Python connects to nothing, starts no program, and writes below ``folder`` alone.

    Native code is not held: what a library does without Python's own functions goes through.
    """
    inside = (os.path.realpath(folder), "/dev", "/proc")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _SOCKETS:
            raise ConnectionError(f"{REFUSED} connection")
        if event in _PROGRAMS:
            raise PermissionError(f"{REFUSED} other program")
        if event == "sqlite3.connect" and str(args[0]) not in ("", ":memory:"):
            held(str(args[0]).removeprefix("file:").partition("?")[0], -1)
        writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITES
        for number, beside in ((0, None),) if writes else _FILES.get(event, ()):
            begin = args[beside] if beside is not None and beside < len(args) else -1
            held(args[number], begin)

    def held(name: Any, begin: int) -> None:
        if not isinstance(name, (str, bytes, os.PathLike)):
            return
        top = f"/proc/self/fd/{begin}" if isinstance(begin, int) and begin >= 0 else ""
        path = os.path.realpath(os.path.join(top, os.fsdecode(name)))
        if not any(path == each or path.startswith(each + "/") for each in inside):
            raise PermissionError(f"{REFUSED} writing: {path}")

    real = os.open  # its audit event does not tell the folder of a relative path

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None or not flags & _WRITES:
            return real(path, flags, mode, dir_fd=dir_fd)
        held(path, dir_fd)
        top = os.path.realpath(f"/proc/self/fd/{dir_fd}")
        return real(os.path.join(top, os.fsdecode(path)), flags, mode)

    def unheard(name: str) -> None:
        make = getattr(os, name)

        def made(path: Any, *args: Any, dir_fd: int | None = None, **named: Any) -> None:
            held(path, -1 if dir_fd is None else dir_fd)
            make(path, *args, dir_fd=dir_fd, **named)

        setattr(os, name, made)

    os.open = opened
    for name in ("mkfifo", "mknod"):  # they have no audit event
        unheard(name)
    sys.addaudithook(hook)


def main() -> int:
    """One question on standard input, one answer in ``answer.json`` of its folder."""
    asked = json.loads(sys.stdin.read())
    folder = Path(asked["folder"])
    refuse(str(folder))
    try:
        told: dict[str, Any] = {"values": _plain(_constructed(asked, folder))}
    except (Exception, SystemExit) as error:
        told = _failed(error)
    (folder / "answer.json").write_text(json.dumps(told), "utf-8")
    return 0


def _constructed(asked: Mapping[str, Any], folder: Path) -> list[Any]:
    """The argument objects, as rank 0 of the real number of ranks makes them."""
    owner = importlib.import_module(f"{asked['plugin']}.check").FRAMEWORK
    classes = [
        getattr(importlib.import_module(one.module), one.name)
        for one in owner.classes(asked["entry"])
    ]
    node = importlib.import_module("vlmguard_transformers.rehearsal.in_rank")
    if asked["world"] > 1:
        from vlmguard.ranks import alone

        environment = RankEnvironment(0, asked["world"], asked["local"], folder / "tape")
        os.environ.update(environment.variables())
        alone.enter(environment)
    node.answers(fsdp=any(word.startswith("--fsdp") for word in asked["argv"]))
    argv = [*asked["argv"], "--output_dir", str(folder / "out")]
    parser = importlib.import_module("transformers").HfArgumentParser
    parsed = parser(classes).parse_args_into_dataclasses(
        argv, look_for_args_file=False, return_remaining_strings=True
    )
    return list(parsed[: len(classes)])


def _plain(made: Sequence[Any]) -> dict[str, Any]:
    """Fields that JSON can say."""
    found: dict[str, Any] = {}
    for one in made:
        for each in dataclasses.fields(one):
            value = getattr(one, each.name, None)
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                continue
            found.setdefault(each.name, value)
    return found


def _failed(error: BaseException) -> dict[str, str]:
    """The framework's refusal, or why it says nothing of the command."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
    chain = _chain(error)
    ours = any(REFUSED in str(each) for each in chain)
    absent = any(isinstance(each, (ImportError, OSError)) for each in chain)
    if ours or absent or sandbox.lacking(text) or isinstance(error, SystemExit):
        return {"doubt": f"--deep: could not be constructed here: {text}"}
    return {"refused": text}


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


if __name__ == "__main__":
    sys.exit(main())
