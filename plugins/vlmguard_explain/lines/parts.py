"""One line of a file may hold several of a log, or be a part of one: JSON, flattened or glued
tracebacks; text copied from a terminal (tmux, a web console), broken at its width."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from vlmguard_explain.lazy import lazy, patterns, words

_P = patterns("lines.parts")
_T = words("lines.parts")

LONGEST = 6000  # characters of a line to read: half at its beginning, half at its end
JSON = 1 << 17  # characters to read of a JSON line
NARROWEST, WIDEST = 60, 400  # columns of a terminal
FULL = 3  # lines that must fill its width
ALIKE = 9  # first characters that are equal in all records of one width
JOINED = 60  # lines to join at most


def is_row(raw: str) -> bool:
    """Whether ``raw`` is a row that a run prints, and no complaint about one."""
    if "'" not in raw and '"' not in raw:
        return False
    match = _P.row.search(raw, 0, JSON)
    if match is None or _P.complaint.search(raw, 0, match.start()):
        return False
    return '"text"' not in match[0] or not (raw.startswith("{") and _object(raw))


def of(raw: str) -> Iterator[str]:
    """The lines that ``raw`` holds, none longer than `LONGEST`; itself alone, where it is one."""
    if raw.startswith("{") and raw.rstrip().endswith("}") and len(raw) <= JSON:
        raw = _object(raw) or raw
    if not (_T.head in raw and is_row(raw)):
        for needle, pattern, to in _rewrites():
            if needle in raw:
                raw = pattern.sub(to, raw)
    for one in raw.split("\n"):
        yield one if len(one) <= LONGEST else one[: LONGEST // 2] + " … " + one[-LONGEST // 2 :]


@functools.cache
def _rewrites() -> list[tuple[str, re.Pattern[str], str]]:
    return [(needle, lazy(pattern), to) for needle, pattern, to in _T.rewrites]


def _object(raw: str) -> str:
    """The text of a JSON object that a collector or a formatter wrote, with time, pod, rank."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return ""
    payload = entry.get("jsonPayload")
    entry = {**entry, **payload} if isinstance(payload, dict) else entry
    message = _field(entry, _T.texts)
    if message and message == entry.get("text") and not entry.keys() & set(_T.loggers):
        return ""  # it is a row of data
    text = "\n".join(one.rstrip("\r\n") for one in (message, _field(entry, _T.raised)) if one)
    time, level = _field(entry, _T.times), _field(entry, _T.levels).upper()
    about, rank = entry.get("kubernetes"), entry.get("rank", entry.get("global_rank"))
    pod = _field(about, ("pod_name",)) if isinstance(about, dict) else ""
    front = f"{time} " if _P.iso.match(time) and len(time) <= 40 else ""
    front += f"[pod/{pod}/main] " if re.fullmatch(r"[\w.-]{1,80}", pod) else ""
    front += f"[rank{rank}]: " if type(rank) is int and rank >= 0 else ""
    quiet = f"{level} " if level in ("WARNING", "WARN", "INFO", "DEBUG") else ""  # was caught
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_T.head, quiet + _T.head)
    return front + text.replace("\n", f"\n{front}") if text else ""


def _field(entry: dict[str, object], names: Sequence[str]) -> str:
    return next((value for name in names if isinstance(value := entry.get(name), str)), "")


def width(texts: Sequence[str]) -> int:
    """The width at which lines were broken, or 0: several lines fill it, none is longer."""
    lengths: Counter[int] = Counter()
    begun: dict[int, set[str]] = {}
    for line in (raw.rstrip() for text in texts for raw in text.split("\n")):
        if len(line) > WIDEST:
            return 0
        if len(line) >= NARROWEST and not _P.ruled.match(line):
            lengths[len(line)] += 1
            begun.setdefault(len(line), set()).add(_P.digits.sub("0", line[:ALIKE]))
    longest = max(lengths, default=0)
    alike = len(begun.get(longest, ())) == 1  # records of one width
    return 0 if lengths[longest] < FULL or alike else longest


def unbroken(text: str, columns: int) -> Iterator[tuple[str, int]]:
    """(line, line feeds) of ``text``; what was broken at ``columns``, or a narrow record of NCCL's
    at the length of its first line, is one line."""
    raws = text.split("\n")
    number = 0
    while number < len(raws):
        first, count = raws[number], 1
        at = columns
        if not at and "ProcessGroupNCCL.cpp:" in first and _P.record.match(first):
            at = len(first) if NARROWEST <= len(first) <= WIDEST // 2 else 0
        if at:
            while count < JOINED and _goes_on(raws, number, number + count, at, not columns):
                count += 1
        yield "".join(raw[: at or None] for raw in raws[number : number + count]), count
        number += count


def _goes_on(raws: Sequence[str], first: int, at: int, columns: int, record: bool) -> bool:
    """Whether ``raws[at]`` is what the line before, which is full, did not hold."""
    above = raws[at - 1] if record else raws[at - 1].rstrip()  # a terminal pads its lines
    if at == len(raws) or "%|" in above or len(above) != columns:
        return False
    raw, begin = raws[at].rstrip(), raws[first][:ALIKE]
    alike = bool(raw[:ALIKE].strip()) and raw[:ALIKE] == begin
    over = record and _P.whole.search(above)
    return not (alike or over or len(raw) > columns or _P.new.match(raw))
