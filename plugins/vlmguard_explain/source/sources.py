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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from vlmguard_explain.lazy import patterns, words

_P = patterns("lines.sources")
_T = words("lines.sources")

MAX_FILES = 4096
GROWN, RATIO = 1 << 30, 300  # bytes; a real log of 1 GB does not pack 300 times smaller

_REPORT = re.compile(rb'\{"time": \d{6,12}(?:\.\d{1,6})?, "kind": "\w{1,20}", "rank": ')
_KERNELS = ("/proc", "/sys")
_PACKS: dict[bytes, Any] = {b"\x1f\x8b": gzip, b"\xfd7zXZ\x00": lzma, b"BZh": bz2}


class Unreadable(Exception):
    """Nothing could be read: no such file, no permission, not a log."""


@dataclass(frozen=True)
class Source:
    """One log."""

    name: str  # its name in messages: the path as given, or "-" for standard input
    path: Path | None = None  # None for standard input
    # the rank whose output this is, as the path says; None if several share it
    rank: int | None = None
    attempt: int = 0  # torchrun's restart count, from the path; 0 without


def find(words: list[str]) -> list[Source]:
    """The logs that ``words`` name, in order. Raises `Unreadable`."""
    found: list[Source] = []
    for word in words:
        path = Path(word)
        if word == "-":
            found.append(Source("-"))
        elif not path.exists():
            raise Unreadable(f"{word}: no such file")
        elif path.is_dir() and not _endless(path):
            found += itertools.islice(_folder(path), MAX_FILES)
        elif _endless(path):
            raise Unreadable(f"{word}: not a log: a device, or the kernel's")
        else:
            found.append(_source(path))
    if not found:
        raise Unreadable(f"no log in {', '.join(words)}")
    # After restarts the last attempt is what the user sees; earlier ones are left out.
    last = max(source.attempt for source in found)
    return [s for s in found if s.attempt == last or "attempt_" not in s.name]


def _endless(path: Path) -> bool:
    """A device, or a file of the kernel's: a read of /proc/kmsg waits for ever. A pipe, as
    ``<(…)`` makes one, ends."""
    status = path.stat()
    if stat.S_ISFIFO(status.st_mode):
        return False
    kernels = {os.stat(root).st_dev for root in _KERNELS if os.path.ismount(root)}
    inside = os.path.realpath(path).startswith(tuple(f"{root}/" for root in _KERNELS))
    plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return inside or status.st_dev in kernels or not plain


def _folder(folder: Path) -> Iterator[Source]:
    """Every log below ``folder``. Symbolic links are not followed: a folder may be someone's."""
    for where, folders, names in os.walk(folder, followlinks=False):
        folders.sort(key=lambda name: (len(name), name))  # 2 before 10
        for path in (Path(where) / name for name in sorted(names, key=lambda n: (len(n), n))):
            if path.suffix in _T.skipped or path.name.startswith((".", "events.out.")):
                continue
            data = path.suffix in (".json", ".jsonl") and not is_report(path)
            if not data and path.is_file() and not path.is_symlink():
                yield _source(path)


def is_report(path: Path | None) -> bool:
    """Whether the file is a report of the guard's (``VLMGUARD_REPORT``)."""
    if path is None or path.suffix not in (".json", ".jsonl"):
        return False
    try:
        with path.open("rb") as file:
            return _REPORT.match(file.read(200)) is not None
    except OSError:
        return False


def _source(path: Path) -> Source:
    """torchrun's layout is RUN/attempt_A/LOCAL_RANK/stderr.log; others put a rank in the name."""
    rank, attempt = None, 0
    for before, part in itertools.pairwise(path.parts):
        if match := _P.attempt.match(before):
            attempt, rank = int(match[1]), int(part) if part.isdecimal() else None
    found = _P.rank.search(path.name) or _P.of_rank.fullmatch(path.parent.name)
    if rank is None and found:  # 17.log is rank 17 only beside 0.log
        told = found[1] or path.with_name(f"0{path.name[found.end(2) :]}").exists()
        rank = int(found[found.lastindex or 1]) if told else None
    return Source(str(path), path, rank, attempt)


def stream(source: Source) -> IO[bytes]:
    """The bytes of ``source``, unpacked. Raises `Unreadable`."""
    if source.path is None:
        return _unpacked(sys.stdin.buffer)
    try:
        return _unpacked(source.path.open("rb", buffering=1 << 16))
    except OSError as error:
        raise Unreadable(f"{source.name}: {error.strerror or error}") from None


class _Unpacking(io.RawIOBase):
    """A packed log; it ends where it grows beyond what a log can: it was packed to do harm."""

    def __init__(self, raw: IO[bytes], pack: Any) -> None:
        self.raw, self.inner, self.size = raw, pack.open(raw), 0
        self.most = max(GROWN, RATIO * os.fstat(raw.fileno()).st_size)  # 0 for a pipe

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.inner.read(size)
        self.size += len(data)
        if self.size > self.most:
            raise OSError(f"it unpacks to more than {RATIO} times its size")
        return data

    def close(self) -> None:
        self.raw.close()
        super().close()


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    start = raw.peek(6)[:6] if isinstance(raw, io.BufferedReader) else b""
    pack = next((pack for magic, pack in _PACKS.items() if start.startswith(magic)), None)
    return cast(IO[bytes], _Unpacking(raw, pack)) if pack else raw


def blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Blocks of at most ``size`` bytes; a file that was cut or spoilt ends where it can be read."""
    try:
        while block := file.read(size):
            yield block
    except (EOFError, OSError, lzma.LZMAError, ValueError) as error:
        yield f"\n[vlmguard: the file cannot be read beyond here: {error}]\n".encode()
