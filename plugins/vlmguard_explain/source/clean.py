"""Bytes of a log as text that is safe to show: no escapes, no control characters, no secrets."""

from __future__ import annotations

import functools
import re

from vlmguard_explain.lazy import lazy, patterns, words

_P = patterns("lines.clean")
_T = words("lines.clean")

FOREIGN = 8  # bytes that are not UTF-8: fewer come from a cut
_BLACK = "█████"


def text(data: bytes) -> str:
    """``data`` as text; ``\\r`` ends a line too, as progress bars do."""
    if data.count(b"\0") * 3 > len(data):  # UTF-16, as PowerShell's ``>`` writes it
        data = data.replace(b"\0", b"")
    decoded = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in decoded or "\x9b" in decoded:
        decoded = _P.escape.sub("", decoded)
    return _P.control.sub("", decoded)


def _decoded(data: bytes) -> str:
    """UTF-8; or a Windows console's Chinese, where that reads nearly all that UTF-8 does not."""
    decoded = data.decode("utf-8", "replace")
    bad = decoded.count("\ufffd")
    if bad < FOREIGN:
        return decoded
    runs = [len(run) for run in re.findall(rb"[\x80-\xff]+", data)]
    paired = sum(size for size in runs if size % 2 == 0) * 5 > sum(runs) * 4
    chinese = data.decode("gb18030", "replace")
    return chinese if paired and chinese.count("\ufffd") * 10 < bad else decoded


def shown(line: str) -> str:
    """``line`` for a person: no control character, secrets blacked out."""
    return redact(_P.control.sub("", _P.escape.sub("", line)))


def redact(line: str) -> str:
    """``line`` with tokens and passwords blacked out."""
    for pattern, kept in _secrets():
        line = pattern.sub(kept, line)
    return _P.field.sub(_field, line)


@functools.cache
def _secrets() -> list[tuple[re.Pattern[str], str]]:
    """Secrets by their form, and what stays of what is around them."""
    return [(lazy(one), kept.replace("#", _BLACK)) for one, kept in _T.secrets]


def _field(match: re.Match[str]) -> str:
    """``--hub_token abc…``, ``password=…``; not "pad_token: <|end|>" or "token: 151655"."""
    name, value = match[1], match[2]
    word, bare = name.strip(" \t=:,'\"").lower(), value.rstrip(".:").lower()
    flag, digits = match.string[: match.start()].endswith("-"), re.search(r"\d", value)
    harmless = bare in ("none", "null", "false", "true") or value.startswith(("<", "█"))
    token = word.endswith("token") and not _P.access.search(word) and not flag
    prose = not (flag or digits or re.search(r"[=:,]", name))  # "password authentication failed"
    if harmless or prose or (token and (len(value) < 16 or not digits)):
        return match[0]
    return f"{name}{_BLACK}"
