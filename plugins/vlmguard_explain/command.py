"""Say why a run failed, hung or ended, from its log, and what to change.

    vlmguard explain train.log

It runs, loads and opens nothing that a log names. Exit status: 0, finished or healthy;
1, explained; 2, a log cannot be read; 3, a failure that is not known; 4, unfinished.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence

from vlmguard.core.words import Parser
from vlmguard_explain.cause import whole_run
from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.match.catalogue import load, table
from vlmguard_explain.run import digest as digests_
from vlmguard_explain.run import logfacts
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.show import formats, guard_report, show
from vlmguard_explain.source import clean, log_reader, sources

STATUS = {"finished": 0, "explained": 1, "unknown": 3, "unfinished": 4}
UNREADABLE = 2
_PACKED = (b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf")  # zip, zstd, 7z are not unpacked
_CONTROL = bytes([*range(1, 8), *range(14, 27), *range(28, 32)])  # a terminal never writes these
DISTINCT = 22  # characters: a shorter sign is found through its exception's frame
LONGEST = 36  # bytes of a sign to look for in the stream: terminals wrap long lines


@functools.cache
def strings() -> tuple[bytes, ...]:
    """What to look for in the stream: the beginning of every sign, and what frames failures."""
    signs = (sign for known in load() for sign in known.patterns)
    least = {"line": 0, "message": DISTINCT}
    wide = [s.text for s in signs if len(s.text) >= least.get(s.where, 1 << 20)]
    found = dict.fromkeys([*table("show")["command"]["structure"], *map(_start, wide)])
    return tuple(text.encode() for text in found)


def _start(text: str) -> str:
    """The first words of ``text``, at most `LONGEST` bytes."""
    cut = text.encode()[:LONGEST].decode("utf-8", "ignore")
    return text if cut == text else cut.rpartition(" ")[0] or cut


def explain(words: Sequence[str]) -> tuple[Answer, list[Digest]]:
    """Read the logs that ``words`` name, and judge them. Raises `sources.Unreadable`."""
    found = sources.find(list(words))
    reports = [s for s in found if sources.is_report(s.path)]
    entries = [entry for s in reports for entry in guard_report.read(sources.stream(s))]
    logs = [s for s in found if not sources.is_report(s.path)]
    digests: list[Digest] = []
    for source in logs:
        try:
            pieces = _read(source, max(len(logs) // 2, 1))
        except sources.Unreadable:
            if len(logs) == 1:
                raise
            continue  # one of several: it is gone, not readable or not a log
        digests.append(digests_.of(source, len(digests), pieces))
    if not digests and not reports:
        raise sources.Unreadable(f"no log in {', '.join(words)}")
    facts = guard_report.facts(logfacts.of_text(d.text for d in digests[:16]), entries)
    answer = whole_run.by_facts(whole_run.judge(digests, facts), digests)
    answer.guard = guard_report.said(entries, digests)
    return guard_report.decided(answer, answer.guard), digests


def _read(source: sources.Source, share: int) -> list[log_reader.Piece]:
    """One log; of several each head and tail are shorter. Raises `sources.Unreadable`."""
    head, tail = (max(size // share, 32 << 10) for size in (log_reader.HEAD, log_reader.TAIL))
    with sources.stream(source) as file:
        blocks = sources.blocks(file, log_reader.BLOCK)
        pieces = log_reader.read(blocks, log_reader.finder(strings()), head, tail)
    start = pieces[0].data[:65536] if pieces else b""
    odd = len(start) - len(start.translate(None, _CONTROL))
    # of 256 bytes noise has 24 of these, a log almost none
    if start.startswith(_PACKED) or (len(start) > 64 and odd * 20 > len(start)):
        raise sources.Unreadable(f"{source.name}: not a log")
    return pieces


def main(words: Sequence[str] | None = None) -> int:
    """Explain. See the module for the exit status."""
    parser = Parser("explain", __doc__)
    told = "text to read (default), json for programs, github for a note on a pull request"
    parser.add_argument("logs", nargs="+", help="logs, folders of logs, or - for standard input")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text", help=told)
    told = "print all advice, all ranks, and the log around the failure"
    parser.add_argument("--all", action="store_true", help=told)
    asked = parser.read(words)
    try:
        answer, digests = explain(asked.logs)
    except sources.Unreadable as error:
        sys.stderr.write(f"vlmguard explain: {clean.shown(str(error))}\n")
        return UNREADABLE
    forms = {"json": formats.as_json, "github": formats.github}
    form = forms.get(asked.format, functools.partial(show.text, whole=asked.all))
    _write(form(answer, digests))
    return STATUS[answer.verdict]


def _write(text: str) -> None:
    """To standard output, whatever its encoding; a reader that has gone away is no fault."""
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
