"""Which files a command line names, and each as a stream of bytes: plain, gzip, xz, bzip2."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

MAX_FILES = 4096
GROWN, RATIO = 1 << 30, 300  # a log of 1 GB shrinks to a hundredth at best, or says one thing only
_SKIPPED = (
    ".safetensors .bin .pt .pth .arrow .parquet .png .jpg .jpeg .mp4 .npy .npz .so .pyc .tar .zip "
    ".py .yaml .yml .html .md .whl .db .ckpt .model .tfevents"
).split()
_RANK = re.compile(
    r"(?:rank|proc|task|local)[-_.]?(\d{1,5})(?!\d)|^(\d{1,5})\.(?:log|out|err|txt)$"
)
_ATTEMPT = re.compile(r"^attempt_(\d+)$")
_OF_RANK = re.compile(r"rank[-_.]?(\d{1,5})")  # a folder
_REPORT = re.compile(rb'\{"time": \d{6,12}(?:\.\d{1,6})?, "kind": "\w{1,20}", "rank": ')
_KERNELS = ("/proc", "/sys")
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}


class Unreadable(Exception):
    """Nothing could be read: no such file, no permission, not a log."""


@dataclass(frozen=True)
class Source:
    """One log.

    Attributes:
        name: how messages call it: the path as given, or "-" for standard input.
        path: where it is, None for standard input.
        rank: the rank whose output this is, as the path tells; None where several share it.
        attempt: torchrun's restart count, from the path; 0 without.
    """

    name: str
    path: Path | None = None
    rank: int | None = None
    attempt: int = 0


def find(words: list[str]) -> list[Source]:
    """The logs that ``words`` name, in order. Raises `Unreadable`."""
    found: list[Source] = []
    for word in words:
        if word == "-":
            found.append(Source("-"))
            continue
        path = Path(word)
        if _endless(path):
            raise Unreadable(f"{word}: not a log: the kernel's, and it may never end")
        if path.is_dir():
            found += _folder(path)
        elif path.exists():
            found.append(_readable(path))
        else:
            raise Unreadable(f"{word}: no such file")
    if not found:
        raise Unreadable(f"no log in {', '.join(words)}")
    return _last_attempts(found)


def _endless(path: Path) -> bool:
    """Whether it lies in the kernel's own file systems: a read of /proc/kmsg waits for ever."""
    try:
        told = path.stat()
    except OSError:
        return False
    kernels = {os.stat(root).st_dev for root in _KERNELS if os.path.ismount(root)}
    inside = os.path.realpath(path).startswith(tuple(f"{root}/" for root in _KERNELS))
    ours = stat.S_ISREG(told.st_mode) or stat.S_ISDIR(told.st_mode)
    return ours and (inside or told.st_dev in kernels)


def _readable(path: Path) -> Source:
    """A file, or a pipe as ``<(…)`` makes one; a device has no end. Raises `Unreadable`."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise Unreadable(f"{path}: not a log")
    return _source(path, path.parent)


def _folder(folder: Path) -> list[Source]:
    """Every log below ``folder``. Symbolic links are not followed: a folder may be someone's."""
    found = []
    for where, folders, names in os.walk(folder, followlinks=False):
        folders.sort(key=_natural)
        for name in sorted(names, key=_natural):
            path = Path(where) / name
            if path.suffix in _SKIPPED or name.startswith((".", "events.out.")):
                continue
            if path.is_symlink() or not path.is_file() or path.name == "error.json":
                continue
            if path.suffix in (".json", ".jsonl") and not is_report(path):
                continue
            found.append(_source(path, folder))
            if len(found) == MAX_FILES:
                return found
    return found


def is_report(path: Path | None) -> bool:
    """Whether the file is a report of the guard's (``VLMGUARD_REPORT``)."""
    if path is None or path.suffix not in (".json", ".jsonl"):
        return False
    try:
        with path.open("rb") as file:
            return _REPORT.match(file.read(200)) is not None
    except OSError:
        return False


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(n) if n else -1, text) for n, text in re.findall(r"(\d{1,9})|(\D+|\d+)", name)]


def _source(path: Path, root: Path) -> Source:
    """torchrun's layout is RUN/attempt_A/LOCAL_RANK/stderr.log; others put a rank in the name."""
    rank = attempt = None
    parts = path.parts
    for before, part in itertools.pairwise(parts):
        if match := _ATTEMPT.match(before):
            attempt = int(match[1])
            rank = int(part) if part.isdecimal() else None
    if rank is None and (match := _RANK.search(path.name.lower().removesuffix(".gz"))):
        rank = int(match[1] or match[2])
    if rank is None and (match := _OF_RANK.fullmatch(path.parent.name.lower())):
        rank = int(match[1])
    return Source(str(path), path, rank, attempt or 0)


def _last_attempts(found: list[Source]) -> list[Source]:
    """After restarts the last attempt is what the user sees; earlier ones are left out."""
    last = max((source.attempt for source in found), default=0)
    restarted = any(source.attempt != last for source in found)
    return [s for s in found if s.attempt == last or not restarted or "attempt_" not in s.name]


def stream(source: Source) -> IO[bytes]:
    """The bytes of ``source``, unpacked. Raises `Unreadable`."""
    if source.path is None:
        return _unpacked(sys.stdin.buffer)
    try:
        return _unpacked(source.path.open("rb", buffering=1 << 16))
    except OSError as error:
        raise Unreadable(f"{source.name}: {error.strerror or error}") from None


class _Counted(io.RawIOBase):
    """The pack, counting what is read of it: a pipe cannot tell its place."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.size = raw, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        self.size += len(data)
        return data


class _Unpacking(io.RawIOBase):
    """A packed log; it ends where it grows beyond what a log can: it was packed to do harm."""

    def __init__(self, raw: IO[bytes], kind: str) -> None:
        self.raw, self.packed, self.unpacked = raw, _Counted(raw), 0
        pack = cast(IO[bytes], self.packed)
        opened: dict[str, Callable[[IO[bytes]], Any]] = {
            "gzip": gzip.open,
            "xz": lzma.open,
            "bzip2": bz2.open,
        }
        self.inner: IO[bytes] = opened[kind](pack)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.inner.read(size)
        self.unpacked += len(data)
        if self.unpacked > GROWN and self.unpacked > RATIO * self.packed.size:
            raise OSError(f"it unpacks to more than {RATIO} times its size")
        return data

    def close(self) -> None:
        self.raw.close()
        super().close()


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    start = raw.peek(6)[:6] if isinstance(raw, io.BufferedReader) else b""
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")
    return cast(IO[bytes], _Unpacking(raw, kind)) if kind else raw


def blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Blocks of at most ``size`` bytes; a file that was cut or spoilt ends where it can be read."""
    while True:
        try:
            block = file.read(size)
        except (EOFError, OSError, lzma.LZMAError, ValueError) as error:
            yield f"\n[vlmguard: the file cannot be read beyond here: {error}]\n".encode()
            return
        if not block:
            return
        yield block
