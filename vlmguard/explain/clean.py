"""Bytes of a log as text that is safe to show: no escapes, no control characters, no secrets."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b\[[0-9;:?<=>!]{0,64}[ -/]{0,4}[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]{0,512}(?:\x1b\\)?"  # DCS and its kin
    r"|\x1b[ -/]{0,2}[0-~]?|\x9b[0-9;?]{0,64}[@-~]?"
)
# C0 but \t and \n, DEL, C1, and what turns the writing direction round or is not seen.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BLACK = "█████"
_WORDS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret(?:[_-]?(?:access)?[_-]?key)?|credentials?|auth|"
    r"(?:api|access|private|encryption)[_-]?key|"
    r"(?:hub|hf|api|access|auth|wandb|github|gitlab|refresh|session|bot|sdk|modelscope|ms|id|user)"
    r"[_-]?token|token)"
)
_SECRETS = [
    re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abposr]-|sk-|pypi-|npm_|r8_)[\w-]{12,}"),
    re.compile(r"\bms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bLTAI[A-Za-z0-9]{12,}|\bAIza[\w-]{30,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"\bwandb_v1_\w{16,}"),
]
_BEARER = re.compile(r"(?i)\b(bearer|basic|authorization:)[ \t]+[\w.+/=~-]{8,}")
_USER = re.compile(r"([a-z][a-z0-9+.-]{1,20}://)[^\s/@:'\"]{0,128}:[^\s/@'\"]{1,256}@", re.I)
_QUERY = re.compile(
    r"(?i)([?&](?:[\w-]{0,40}(?:token|signature|secret|credential|key|sig))=)[^&\s'\"]{4,}"
)
_NAMED = re.compile(
    rf"(?i)(?<![a-z])((?:[a-z0-9]{{1,24}}[_-]){{0,4}}{_WORDS}\b['\"]?\s{{0,3}}[=:,\s]\s{{0,3}}['\"]?)"
    r"([^\s'\",;)\]}]{6,})"
)
_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_HEX = re.compile(r"(?i)(wandb[^\n]{0,40}?)\b[0-9a-f]{40}\b")


def text(data: bytes) -> str:
    """``data`` as text; ``\\r`` ends a line too, as progress bars do."""
    if data.count(b"\0") * 3 > len(data):  # UTF-16, as PowerShell's ``>`` writes it
        data = data.replace(b"\0", b"")
    decoded = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in decoded or "\x9b" in decoded:
        decoded = _ESCAPE.sub("", decoded)
    return _CONTROL.sub("", decoded)


def shown(line: str) -> str:
    """``line`` for a person: no control character, secrets blacked out."""
    return redact(_CONTROL.sub("", _ESCAPE.sub("", line)))


def redact(line: str) -> str:
    """``line`` with tokens and passwords blacked out."""
    for pattern in _SECRETS:
        line = pattern.sub(_BLACK, line)
    line = _BEARER.sub(rf"\1 {_BLACK}", line)
    line = _USER.sub(rf"\1{_BLACK}@", line)
    line = _QUERY.sub(rf"\1{_BLACK}", line)
    line = _HEX.sub(rf"\1{_BLACK}", line)
    line = _KEY.sub(_BLACK, line)
    return _NAMED.sub(_named, line)


def _named(match: re.Match[str]) -> str:
    """``--hub_token abc…``, ``password=…``; not "pad_token: <|end|>" or "token: 151655"."""
    name, value = match[1], match[2]
    word = name.strip(" \t=:,'\"").lower()
    harmless = value.lower() in ("none", "null", "false", "true") or value.startswith(("<", "█"))
    plain = word.endswith("token") and not re.search(
        r"(?:hub|hf|api|access|auth|wandb|git\w*|refresh|session|bot|"
        r"sdk|modelscope|ms|id|user)[_-]?token$",
        word,
    )
    flag = match.string[: match.start()].endswith("-")
    if harmless or (plain and not flag and (len(value) < 16 or not re.search(r"\d", value))):
        return match[0]
    separated = re.search(r"[=:,]", name) is not None
    if not separated and not flag and not re.search(r"\d", value):
        return match[0]  # prose: "password authentication failed"
    return f"{name}{_BLACK}"
