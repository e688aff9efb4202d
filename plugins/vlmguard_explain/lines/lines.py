"""Lines of a log, without what launchers put in front of them: rank, host, time.

``tables/lines.toml`` has one expression for each such prefix. Its named groups say what it shows:
``rank``, ``lane`` (a stream of lines of its own: a host, a pod, an actor), ``level``, ``date``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines import parts
from vlmguard_explain.source import clean
from vlmguard_explain.source.log_reader import Piece

_P = patterns("lines.lines")

MOST = 5  # prefixes of one line
Time = tuple[int, ...]  # (month, day, hour, minute, second, microsecond): to compare in a log


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
    """The lines of ``pieces``; ``rank`` is the log's own, where the path has one."""
    texts = [(piece, clean.text(piece.data)) for piece in pieces]
    columns = parts.width([text for _, text in texts])
    outer, quotation, tee = _usual(texts[0][1] if texts else "")
    relayed = _P.list_of("relayed") if any(_P.frame.search(text) for _, text in texts) else ()
    inner = (*_P.list_of("prefixes"), *relayed)
    for piece, text in texts:
        number, at = piece.line, piece.at
        for whole, broken in parts.unbroken(text, columns):
            for raw in parts.of(quotation.sub("", whole) if quotation else whole):
                fields: dict[str, Any] = {"rank": rank, "time": None, "text": raw}
                fields |= {"lane": "", "level": ""}
                for match in _matches(raw, outer, inner):
                    _read(fields, match, tee)
                if fields["rank"] is not None:
                    fields["lane"] = f"{fields['lane']}/{fields['rank']}"
                yield Line(source=source, number=number, at=at, raw=raw, **fields)
            number, at = number + broken, at + len(whole) + broken


def _read(line: dict[str, Any], match: re.Match[str], tee: bool) -> None:
    """What one prefix says of its line."""
    found = match.groupdict()
    line["text"] = match.string[match.end() :]
    if found.get("rank"):
        line["rank"] = int(found["rank"])
        line["marked"] = line.get("marked") or (match[0].startswith("[rank") and not tee)
    line["lane"] = found.get("lane") or line["lane"]
    line["level"] = (found.get("level") or line["level"])[:1]
    if "date" in found and line["time"] is None:
        line["time"] = clock(found["date"], found["clock"], found["micro"])


def _usual(head: str) -> tuple[list[re.Pattern[str]], re.Pattern[str] | None, bool]:
    """What stands before nearly all lines: prefixes of a launcher; an editor's numbers or a mark of
    quotation; and whether torchrun marks every line (``--tee 3``), not only exceptions."""
    some = [line for line in head.split("\n", 400)[:400] if line.strip()]

    def share(pattern: re.Pattern[str]) -> float:
        return sum(map(bool, map(pattern.match, some))) / len(some) if len(some) > 3 else 0

    quotation = next((one for one in _P.list_of("quotation") if share(one) > 0.9), None)
    marked = [line for line in some if line.startswith("[rank")]
    tee = any("Traceback" not in line and "File" not in line for line in marked[:3])
    tee = tee and len(marked) > 0.8 * len(some)
    return [one for one in _P.list_of("usual") if share(one) > 0.6], quotation, tee


def _matches(
    text: str, outer: Iterable[re.Pattern[str]], inner: Iterable[re.Pattern[str]]
) -> Iterator[re.Match[str]]:
    """The prefixes of a line, each as it stands before the rest."""
    for one in outer:
        if match := one.match(text):
            yield match
            text = text[match.end() :]
    for _ in range(MOST):
        found = next((match for one in inner if (match := one.match(text))), None)
        if found is None:
            return
        yield found
        text = text[found.end() :]


def clock(date: str, time: str, micro: str | None) -> Time:
    """The time of a log's clock; glog's date is month and day without a year."""
    digits, part = date.replace("-", ""), (micro or "0")[:6].ljust(6, "0")
    hour, minute, second = time.split(":")
    return int(digits[:-2][-2:]), int(digits[-2:]), int(hour), int(minute), int(second), int(part)
