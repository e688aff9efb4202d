"""Lines of a log, without what launchers put in front of them: rank, host, time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vlmguard.explain import clean, terminal, unfold
from vlmguard.explain.reader import Piece

LONGEST = 6000  # characters of a line that are looked at: its first and last half

Time = tuple[int, ...]  # (month, day, hour, minute, second, microsecond), to compare within a log

_TIME = r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?:Z|[+-]\d\d:?\d\d)?"
_ISO = re.compile(rf"^[\[【]?{_TIME}(?:】\s?|\]?:?[\s|]+(?:std(?:out|err) [FP] )?)")
_ANY_TIME = re.compile(rf"^[\[(]?{_TIME}")
_GLOG = re.compile(r"^\[?([IWEF])(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,9})[^\]]{0,120}\]\s?")
_SHORT = re.compile(r"^\[([IWEF]) [\w.]{1,60}:\d{1,6}\] ")  # c10's, before torch 2.3
_RANKS = re.compile(
    r"^(?:\[rank\s?(\d{1,5})\]:?\s?|rank(\d{1,5})\]:\s?|\[(?:[a-z_.-]*)(\d{1,5})\]:\s?"
    r"|\[\d+,(?:mpirank:)?(\d{1,5})(?:,[\w.-]{1,60})?\]<std(?:out|err)>:\s?|\[Rank (\d{1,5})\]:?\s)"
)
_VLLM = re.compile(
    r"^(ERROR|WARNING|INFO|DEBUG) (?:\d{4}-)?\d\d-\d\d (\d\d:\d\d:\d\d)(?:\.\d{1,6})? "
    r"\[?[\w./]{1,80}:\d{1,6}\]\s?"
)
_LOGURU = re.compile(
    r"^(TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL)\s{1,9}\| [\w.<>:]{1,120} [-|] "
)
_STREAM = re.compile(r"^std(?:out|err): ")
# Kaggle's seconds and line; a viewer's line number; a clock without a day; a quotation mark.
_COUNTED = re.compile(
    r"^(?:\d{1,7}\.\d{1,2}s[ \t]{1,4}\d{1,7}[ \t]|\[\d{4,8}\] |\[\d\d:\d\d:\d\d[.,]\d{3}\]:? |> )"
)
_COMMENT = re.compile(r"^\s{0,4}(?:#|//|>) ?")  # of a log that was put into a script or a mail
_LABEL = re.compile(r"^\s?(\d{1,5}): ?")  # srun --label
_NUMBER = re.compile(r"^\s{0,6}(\d{1,7})[\t ]")  # an editor's or `cat -n`'s line number
_TABLE = re.compile(r"^\s{0,4}(?:\|\s{0,4}){1,4}(?=\d{4}-\d\d-\d\d|\[rank\d)")  # a log viewer's row
_HOST = re.compile(
    r"^(?!\w{0,60}(?:Error|Exception): )"
    r"([A-Za-z][\w.-]{0,62}): (?=\[rank|Traceback \(|  File \"|\[\d{4}-\d\d|\[[A-Z]+\])"
)
# pdsh with addresses; journalctl and syslog; docker compose. What they name is a lane of its own.
_SOURCES = re.compile(
    r"^(?:(\d{1,3}(?:\.\d{1,3}){3}): ?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (\S{1,80} [\w./-]{1,60}(?:\[\d{1,8}\])?): ?"
    r"|([A-Za-z][\w.-]{0,60}[-_]\d{1,5}|[a-z][a-z0-9_.-]{1,60})[ \t]{1,40}\| ?)"
)
_ACTOR = re.compile(
    r"^\(([\w.]{1,60}(?:\([\w.-]{1,60}\))?) pid=(\d{1,8})(?:, ip=[\d.]{7,15})?\)\s?"
)
_RAYLET = re.compile(r"^\(raylet(?:, ip=[\d.]{7,15})?\)\s?")  # in front of the first line only
_POD = re.compile(r"^\[(?:pod/)?[\w.-]{1,80}/[\w.-]{1,60}\] ")
_TOLD = re.compile(
    r"^\[(?:INFO|ERROR|WARNING|DEBUG|STDERR|STDOUT)\] ?(?:\[[A-Z][\w-]{1,30}\] )?", re.IGNORECASE
)
_TOLD_FRAME = re.compile(
    r"[\]\d] \[(?:INFO|ERROR|WARNING|DEBUG)\](?: \[[A-Z][\w-]{1,30}\])? {1,6}"
    r"File \"[^\"\n]{1,400}\", line "
)
_JOINED = re.compile(r"(?<=[^\n])(?=\[rank\d{1,5}\]: )")  # two ranks on one line
# torchrun's record behind a bar, or behind a question that nobody answered.
_BEHIND = re.compile(r"(?<=\S )(?=[WE]\d{4} \d\d:\d\d:\d\d\.\d{3,9} \d{1,9} \S{1,200}/elastic/)")
# Python's logging of what a child printed, one record or several on a line.
_RELAYED = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - [\w.]{1,60} - [A-Z]{4,8} - (?=\[rank\d)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number in the log from 1, who wrote it, when, at what level, what."""

    source: int
    number: int
    at: int
    rank: int | None
    lane: str
    time: Time | None
    level: str
    text: str
    raw: str
    marked: bool = False  # torch's own "[rankN]:" prefix

    @property
    def place(self) -> tuple[int, int]:
        """Of which log, and which of its lines."""
        return self.source, self.number


def lines(pieces: Iterable[Piece], source: int = 0, rank: int | None = None) -> Iterator[Line]:
    """The lines of ``pieces``; ``rank`` is the log's own, where the path told it."""
    texts = [(piece, clean.text(piece.data)) for piece in pieces]
    labelled = _labelled(texts[0][1]) if texts else False
    numbered = _numbered(texts[0][1]) if texts else False
    commented = _commented(texts[0][1]) if texts else False
    tee = _all_marked(texts[0][1]) if texts else False
    columns = terminal.width([text for _, text in texts])
    hosts = _hosts(texts[0][1]) if texts else set()
    told = any(_relays(text) for _, text in texts)
    for piece, text in texts:
        number, at = piece.line, piece.at
        for raw, feeds, size in terminal.lines(text, columns):
            number_here, at_here = number, at
            at += size
            number += feeds
            raw = _NUMBER.sub("", raw) if numbered else raw
            for part in _parts(_COMMENT.sub("", raw) if commented else raw):
                yield _line(part, source, number_here, at_here, rank, labelled, tee, hosts, told)


def _parts(raw: str) -> Iterator[str]:
    """What one line of the file holds, each no longer than `LONGEST`."""
    for one in unfold.parts(raw):
        short = one
        if len(one) > LONGEST:
            short = one[: LONGEST // 2] + " … " + one[-LONGEST // 2 :]
        if "/elastic/" in short:
            short = _BEHIND.sub("\n", short)
        if "[rank" not in short:
            yield from short.split("\n")
            continue
        if " - [rank" in short:
            short = _RELAYED.sub("\n", short).lstrip("\n")
        yield from _JOINED.sub("\n", short).split("\n")


def _labelled(head: str) -> bool:
    """Whether srun --label numbered the lines: nearly all of them, more than one number."""
    some = [line for line in head.split("\n", 400)[:400] if line.strip()]
    found = [match[1] for line in some if (match := _LABEL.match(line))]
    return len(found) > 0.6 * len(some) and len(some) > 3


def _numbered(head: str) -> bool:
    """Whether an editor's line numbers stand before nearly all lines: each is one more."""
    some = [line for line in head.split("\n", 400)[:400] if line.strip()]
    found = [int(match[1]) if (match := _NUMBER.match(line)) else None for line in some]
    pairs = itertools.pairwise(found)
    rising = sum(a is not None and b is not None and 0 < b - a < 3 for a, b in pairs)
    return rising > 0.6 * (len(some) - 1) and len(some) > 3


def _commented(head: str) -> bool:
    """Whether one mark of a comment or a quotation stands before nearly all lines."""
    some = [line.lstrip() for line in head.split("\n", 400)[:400] if line.strip()]
    most = max(sum(line.startswith(mark) for line in some) for mark in ("#", "//", ">"))
    return most > 0.9 * len(some) and len(some) > 3


def _hosts(head: str) -> set[str]:
    """The hosts that pdsh names in front of nearly all lines: "node1: ", not "INFO: "."""
    some = [line for line in head.split("\n", 400)[:400] if line.strip()]
    found = [match[1] for line in some if (match := re.match(r"([A-Za-z][\w.-]{0,62}): ", line))]
    named = {name for name in found if re.search(r"\d", name)}
    most = sum(name in named for name in found) > 0.6 * len(some)
    return named if most and len(some) > 3 and len(named) <= 64 else set()


def _relays(text: str) -> bool:
    """Whether a logger's level stands before a traceback's frames, too: it relays what it read."""
    return "] " in text and bool(_TOLD_FRAME.search(text))


def _all_marked(head: str) -> bool:
    """Whether a launcher (torchrun --role rank --tee 3) marks every line, not only exceptions."""
    some = [line for line in head.split("\n", 400)[:400] if line.strip()]
    marked = [line for line in some if line.startswith("[rank")]
    spoken = any("Traceback" not in line and "File" not in line for line in marked[:3])
    return len(marked) > 0.8 * len(some) and len(some) > 3 and spoken


def _line(
    raw: str,
    source: int,
    number: int,
    at: int,
    rank: int | None,
    labelled: bool,
    tee: bool,
    hosts: set[str],
    told: bool,
) -> Line:
    text, time, level, lane, marked = raw, None, "", "", False
    if match := _TABLE.match(text):
        text = text[match.end() :].rstrip(" |")
    for _ in range(5):
        if match := _ISO.match(text):
            time = time or _clock(match)
        elif match := _VLLM.match(text) or _LOGURU.match(text):
            level = match[1][0]
        elif match := _STREAM.match(text) or _COUNTED.match(text) or _RAYLET.match(text):
            pass
        elif match := _POD.match(text):
            lane = match[0]
        elif match := _ACTOR.match(text):
            lane = match[2]
        elif match := _SOURCES.match(text):
            lane = match[match.lastindex or 0]
        elif labelled and (match := _LABEL.match(text)):
            rank = int(match[1])
            labelled = False
        elif match := _RANKS.match(text):
            named = re.match(r"\[[A-Za-z]", text)
            if not named and match[3] and "<" not in match[0]:
                break  # "[3]: …" is a list, not a rank
            rank = int(next(group for group in match.groups() if group is not None))
            marked = marked or (text.startswith("[rank") and not tee)
        elif match := _SHORT.match(text):
            level = match[1]
        elif told and (match := _TOLD.match(text)):
            pass
        elif match := _GLOG.match(text):
            time = time or _glog(match)
            level = match[1]
        elif (match := _HOST.match(text)) or (match := _known_host(text, hosts)):
            hosts.add(match[1])
            lane = match[1]
        else:
            break
        text = text[match.end() :]
    if time is None and (match := _ANY_TIME.match(text)):
        time = _clock(match)
    lane = f"{lane}/{rank}" if rank is not None else lane
    return Line(source, number, at, rank, lane, time, level, text, raw, marked)


def _known_host(text: str, hosts: set[str]) -> re.Match[str] | None:
    match = re.match(r"([A-Za-z][\w.-]{0,62}): ?", text) if hosts else None
    return match if match and match[1] in hosts else None


def _clock(match: re.Match[str]) -> Time:
    _, month, day = match[1].split("-")
    hour, minute, second = match[2].split(":")
    micro = int((match[3] or "0")[:6].ljust(6, "0"))
    return int(month), int(day), int(hour), int(minute), int(second), micro


def _glog(match: re.Match[str]) -> Time:
    micro = int(match[7][:6].ljust(6, "0"))
    return int(match[2]), int(match[3]), int(match[4]), int(match[5]), int(match[6]), micro
