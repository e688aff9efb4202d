"""``vlmguard explain``: what a log says of why a run failed, hung or just ended.

Exit status: 0 healthy or finished, 1 explained, 2 unreadable, 3 a failure that is not known,
4 unfinished. Nothing in a log is executed, loaded or followed.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from bisect import bisect_right
from collections.abc import Sequence

from vlmguard.explain import (
    clean,
    formats,
    judge,
    logfacts,
    matcher,
    ours,
    reader,
    refined,
    show,
    sources,
)
from vlmguard.explain import digest as digests_
from vlmguard.explain.answer import Answer
from vlmguard.explain.catalogue import load
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known, bare
from vlmguard.explain.notes import NOTES

STATUS = {"finished": 0, "explained": 1, "unknown": 3, "unfinished": 4}
UNREADABLE = 2
_PACKED = (b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf")  # zip, zstd, 7z: not unpacked
DISTINCT = 22  # a shorter sign of an exception is reached through the exception's own frame
LONGEST = 36  # bytes of a sign that are looked for in the stream: terminals wrap long lines
# What tells of an exception, a launcher's or a rank's end, whatever the failure.
_STRUCTURE = (
    "Traceback (most recent call last)",
    "Root Cause (first observed failure)",
    "terminate called after throwing",
    "Watchdog caught collective",
    "last enqueued",
    "WorkNCCL(SeqNum",
    "Error: ",
    "Exception: ",
    "Timeout: ",
    "AssertionError",
    "NotImplementedError",
    "KeyboardInterrupt",
    "MemoryError",
    "what():  ",
    "exits with return code",
    "(exitcode: ",
    "srun: error:",
    "Killing subprocess",
    "closing signal SIGTERM",
    "exited on signal",
    "vlmguard: ",
    "train_runtime",
    "grad_norm': nan",
    "'loss': nan",
    "Setting OMP_NUM_THREADS environment",
    "wandb: Tracking run with wandb",
)


def strings(catalogue: Sequence[Known]) -> list[bytes]:
    """What to look for in the stream: the beginning of every sign, and what frames failures."""
    found = dict.fromkeys(_STRUCTURE)
    for known in catalogue:
        for sign in known.signs:
            if sign.where == "line" or (sign.where == "message" and len(sign.text) >= DISTINCT):
                found[_start(sign.text)] = found[_start(bare(sign.text))] = None
    for note in NOTES:
        found[_start(note)] = None
    return [text.encode() for text in _shortest(list(found))]


def _shortest(texts: list[str]) -> list[str]:
    """Without those that hold another: where they are, it is found."""
    starts, end = [], 0
    for text in texts:
        starts.append(end)
        end += len(text) + 1
    joined = "\n".join(texts)  # one search each: all pairs would take a third of a second
    longer: set[int] = set()
    for number, text in enumerate(texts):
        at = joined.find(text)
        while at >= 0:
            if at != starts[number]:
                longer.add(bisect_right(starts, at) - 1)
            at = joined.find(text, at + 1)
    return [text for number, text in enumerate(texts) if number not in longer]


@functools.cache
def _wanted() -> list[bytes]:
    return strings(load())


def _start(text: str) -> str:
    """The first words of ``text``, at most `LONGEST` bytes."""
    if len(text.encode()) <= LONGEST:
        return text
    return text.encode()[:LONGEST].decode("utf-8", "ignore").rpartition(" ")[0] or text[:LONGEST]


def explain(words: Sequence[str]) -> tuple[Answer, list[Digest]]:
    """Read the logs that ``words`` name, and judge them. Raises `sources.Unreadable`."""
    catalogue = load()
    wanted = _wanted()
    find = matcher.finder(wanted)
    found = sources.find(list(words))
    reports = [ours.read(sources.stream(s)) for s in found if sources.is_report(s.path)]
    found = [s for s in found if not sources.is_report(s.path)]
    share = max(len(found) // 2, 1)
    head, tail = max(reader.HEAD // share, 32 << 10), max(reader.TAIL // share, 32 << 10)
    digests: list[Digest] = []
    for source in found:
        try:
            with sources.stream(source) as file:
                blocks = sources.blocks(file, reader.BLOCK)
                reading = reader.read(blocks, wanted, find, head, tail)
        except sources.Unreadable:
            if len(found) == 1:
                raise
            continue  # one of several: it went away since, or is another user's
        if _binary(reading):
            if len(found) == 1:
                raise sources.Unreadable(f"{source.name}: not a log")
            continue
        digests.append(digests_.of(source, len(digests), reading, catalogue))
        reading.pieces = []
    if not digests and not reports:
        raise sources.Unreadable(f"no log in {', '.join(words)}")
    facts = ours.facts(logfacts.of_text(d.text for d in digests[:16]), reports)
    answer = refined.by_facts(judge.judge(digests, facts, catalogue), catalogue, digests)
    answer.guard = ours.said(reports, digests)
    return ours.settled(answer, answer.guard, catalogue), digests


def _binary(reading: reader.Reading) -> bool:
    """Whether this is no text: many control bytes that no terminal writes."""
    start = reading.pieces[0].data[:65536] if reading.pieces else b""
    odd = len(start) - len(
        start.translate(None, bytes([*range(1, 8), *range(14, 27), 28, 29, 30, 31]))
    )
    if start.startswith(_PACKED):
        return True
    return len(start) > 64 and odd * 20 > len(start)  # noise has 24 of 256, a log hardly any


def main(words: Sequence[str] | None = None) -> int:
    """Explain. See the module for the exit status."""
    asked = _parse(sys.argv[2:] if words is None else words)
    try:
        answer, digests = explain(asked.logs)
    except sources.Unreadable as error:
        sys.stderr.write(f"vlmguard explain: {clean.shown(str(error))}\n")
        return UNREADABLE
    shown = {"text": show.text, "json": formats.as_json, "github": formats.github}[asked.format]
    _write(shown(answer, digests))
    return STATUS[answer.verdict]


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="vlmguard explain",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", nargs="+", help="logs, folders of logs, or - for standard input")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text")
    return parser.parse_args(list(words))


def _write(text: str) -> None:
    """To standard output, whatever its encoding; a reader that has gone away is no fault."""
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
