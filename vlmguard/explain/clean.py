"""Bytes of a log as text that is safe to show: no escapes, no control characters, no secrets."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b\[[0-9;:?<=>!]{0,64}[ -/]{0,4}[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]{0,512}(?:\x1b\\)?"  # DCS and its kin
    r"|\x1b[ -/]{0,2}[0-~]?|\x9b[0-9;?]{0,64}[@-~]?"
)
# C0 but \t and \n, DEL, C1, and what turns the writing direction round, ends a line or is not seen.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
FOREIGN = 8  # bytes that are no UTF-8: fewer are a cut
_HIGH = re.compile(rb"[\x80-\xff]+")
_BLACK = "█████"
_WORDS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret(?:[_-]?(?:access)?[_-]?key)?|credentials?|auth|"
    r"access[_-]?key[_-]?secret|(?:api|access|private|encryption|account|app|kaggle)[_-]?key|"
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
    re.compile(
        r"\b(?:nvapi-|xai-|pplx-|gsk_|rpa_|hf_jwt_|[rs]k_(?:live|test)_|do[opr]_v1_)[\w-]{16,}"
    ),
    re.compile(r"\bdapi[0-9a-f]{32}\b|\bya29\.[\w-]{20,}|(?<!\d)\d{6,12}:AA[\w-]{30,}"),
    re.compile(r"(?m)^[ \t]{0,8}[A-Za-z0-9+/]{60,76}={0,2}[ \t]{0,8}$"),  # a line of a private key
]
# Where only what stands before it tells; that stays.
_BEHIND = [
    re.compile(r"(hooks\.slack\.com/services/|open-apis/bot/v2/hook/)[\w/-]{16,}"),
    re.compile(r"""(['"]key['"]\s{0,2}:\s{0,2}['"])[0-9a-f]{32}\b"""),  # kaggle.json
    re.compile(r"((?:密码|口令|密钥|令牌|私钥)\s{0,2}(?:为|是|[:：=])\s{0,3})[\x21-\x7e]{6,}"),
    re.compile(r"((?:^|\s)(?:-u|--user)[ =][\w.@-]{1,64}:)(?!\d{1,9}(?:\s|$))\S{4,}"),
    re.compile(r"(\bsshpass\s{1,3}-p\s{0,3}|\blogin [^\n]{0,60}(?:-k|--api-key)[ =])\S{4,}"),
    re.compile(r"(\bmysql\w{0,8} [^\n]{0,100}\s-p)\S{4,}"),
    re.compile(r"(\becho\s{1,3})\S{4,200}(?=\s{0,3}\|\s{0,3}sudo\b)"),
    re.compile(r"(?i)(wandb[^\n]{0,200}?)\b[0-9a-f]{40}\b"),
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
_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.){0,20000}?"
    r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)


def text(data: bytes) -> str:
    """``data`` as text; ``\\r`` ends a line too, as progress bars do."""
    if data.count(b"\0") * 3 > len(data):  # UTF-16, as PowerShell's ``>`` writes it
        data = data.replace(b"\0", b"")
    decoded = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in decoded or "\x9b" in decoded:
        decoded = _ESCAPE.sub("", decoded)
    return _CONTROL.sub("", decoded)


def _decoded(data: bytes) -> str:
    """UTF-8; or a Windows console's Chinese, where that reads nearly all that UTF-8 does not."""
    decoded = data.decode("utf-8", "replace")
    bad = decoded.count("\ufffd")
    if bad < FOREIGN:
        return decoded
    high = sum(map(len, _HIGH.findall(data)))
    paired = sum(len(run) for run in _HIGH.findall(data) if len(run) % 2 == 0)
    chinese = data.decode("gb18030", "replace")
    right = paired * 5 > high * 4 and chinese.count("\ufffd") * 10 < bad
    return chinese if right else decoded


def shown(line: str) -> str:
    """``line`` for a person: no control character, secrets blacked out."""
    return redact(_CONTROL.sub("", _ESCAPE.sub("", line)))


def redact(line: str) -> str:
    """``line`` with tokens and passwords blacked out."""
    line = _KEY.sub(_BLACK, line)
    for pattern in _SECRETS:
        line = pattern.sub(_BLACK, line)
    for pattern in _BEHIND:
        line = pattern.sub(rf"\1{_BLACK}", line)
    line = _BEARER.sub(rf"\1 {_BLACK}", line)
    line = _USER.sub(rf"\1{_BLACK}@", line)
    line = _QUERY.sub(rf"\1{_BLACK}", line)
    return _NAMED.sub(_named, line)


def _named(match: re.Match[str]) -> str:
    """``--hub_token abc…``, ``password=…``; not "pad_token: <|end|>" or "token: 151655"."""
    name, value = match[1], match[2]
    word = name.strip(" \t=:,'\"").lower()
    bare = value.rstrip(".:").lower()  # words may follow
    harmless = bare in ("none", "null", "false", "true") or value.startswith(("<", "█"))
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
