"""Secrets are blacked out of everything that is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable

BLACK = "***"
_WORD = (
    r"(?:token|api_?key|access_?key|secret|passwd|password|passphrase|credential|auth|webhook_url)"
)
_NOT = re.compile(
    r"tokenizer|tokens|(?:.*_)?(?:pad|eos|bos|unk|cls|sep|mask|image|img|video|audio|vision|media|"
    r"special|start|end|stop|max|min|num|new|skip|remove|per|extra|prompt|response|chat|time)"
    r"(?:_\w+)?_tokens?(?:_ids?|_index)?"
)
"""Names of a model's tokens and of their numbers, which hold no secret."""
_NAME = re.compile(rf"(?:^|[^a-z]){_WORD}s?(?:$|[^a-z])|{_WORD}$|(?:^|_)key$|^sk$", re.I)
_GIVEN = ("-H", "--header", "-u", "--user", "--proxy-user", "-b", "--cookie")
"""Options of curl and wget before a secret."""
_USER = ("-u", "--user", "--proxy-user")
"""Of these, options with a name alone or a name and a password."""
_SHORT = re.compile(
    r"(\b(?:(?:sshpass|mysql\w*|mariadb\w*|(?:docker|podman|nerdctl|helm)\s+(?:registry\s+)?login)"
    r"\b[^\n;|&]*?\s-p|swanlab\s+login\b[^\n;|&]*?\s-k|redis-cli\b[^\n;|&]*?\s-a)\s*)"
    r"(?![\s-])\S+"
)
"""Programs whose short option is a password or a key; it may be in the same word."""
_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9]{12,}"
    r"|\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{12,}"  # OpenAI, Anthropic, SwanLab's proxies; Stripe
    r"|\bms-[0-9a-f]{8}-[0-9a-f-]{20,}"  # ModelScope
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{16,}"  # GitLab
    r"|\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}"  # Slack
    r"|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"  # Google
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS, lasting and temporary
    r"|\bwandb_v1_\w{20,}|\br8_[A-Za-z0-9]{30,}|\bnvapi-[\w-]{20,}|\bdop_v1_[0-9a-f]{40,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"  # JSON Web Tokens
)
"""Keys and tokens that their beginnings tell. Forty hexadecimal digits are none of them: as a rule
they are a commit."""
_LOGIN = re.compile(r"(\b(?:wandb|swanlab)\s+login\s+(?:--relogin\s+)?)(?!-)\S+")
_PRIVATE = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
)
_COOKIE = re.compile(r"(\b(?:set-)?cookie\s*:\s*)[^\r\n\"']+", re.I)
_HOOK = re.compile(
    r"(://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook"
    r"|[\w.-]+\.webhook\.office\.com/webhookb2)/)[^\s\"']+"
)
_URL = re.compile(r"(\b[a-z][\w+.-]*://)([^\s/@]+)@", re.I)
_QUERY = re.compile(rf"([?&](?:[\w-]*{_WORD}[\w-]*|key|sig)=)[^&\s\"']+", re.I)
_PAIR = re.compile(rf"""((?<![\w.-])["']?[\w.-]*{_WORD}["']?\s*[=:]\s*)(["']?)[^\s"',}}]+""", re.I)
_HEADER = re.compile(r"(\b(?:authorization|x-[\w-]*key)\s*:\s*)(?:bearer\s+|basic\s+)?\S+", re.I)


LONGEST = 10_000
"""Characters of a text that are shown; some patterns take the square of its length."""


def secret(name: str) -> bool:
    """Whether a flag or variable of that name holds a secret."""
    bare = name.strip("-").replace("-", "_")
    bare = re.sub(r"([a-z])([A-Z])", r"\1_\2", bare).lower()
    return not _NOT.fullmatch(bare) and _NAME.search(bare) is not None


def text(value: str) -> str:
    """Free text without tokens, private keys, cookies, passwords in URLs, and ``password=…``."""
    if len(value) > LONGEST:
        return f"{text(value[:LONGEST])}… ({len(value)} characters)"
    value = _PRIVATE.sub(rf"\1{BLACK}\2", value)
    value = _HOOK.sub(rf"\1{BLACK}", value)
    value = _COOKIE.sub(rf"\1{BLACK}", value)
    value = _LOGIN.sub(rf"\1{BLACK}", value)
    value = _SHORT.sub(rf"\1{BLACK}", value)
    value = _URL.sub(rf"\1{BLACK}@", value)
    value = _QUERY.sub(rf"\1{BLACK}", value)
    value = _HEADER.sub(rf"\1{BLACK}", value)
    value = _PAIR.sub(_pair, value)
    return _SHAPES.sub(BLACK, value)


def _pair(found: re.Match[str]) -> str:
    name = re.split(r"[\s=:]", found[1].strip("\"'"))[0].strip("\"'")
    return f"{found[1]}{found[2]}{BLACK}" if secret(name) else found[0]


NEAR = 100
"""Words at a command's beginning, and before a word, that tell whether it is a password."""


def words(values: Iterable[str]) -> list[str]:
    """A command's words without the values of secret flags and variables, and without passwords."""
    shown: list[str] = []
    hide, before = False, ""
    for value in values:
        if hide and not value.startswith("--") and (before not in _USER or ":" in value):
            shown.append(BLACK)
            hide = False
            continue
        hide, before = False, value
        name, equals, _ = value.partition("=")
        if equals and re.fullmatch(r"-{0,2}[\w.-]+", name) and secret(name):
            shown.append(f"{name}={BLACK}")
            continue
        hide = (value.startswith("--") and secret(value)) or value in _GIVEN
        near = shown if len(shown) < 2 * NEAR else [*shown[:NEAR], *shown[-NEAR:]]
        shown.append(_behind(near, value) or text(value))
    return shown


def _behind(before: Iterable[str], value: str) -> str:
    """What is shown of a word that is a program's password, by the words before it; else ""."""
    start = " ".join(before)
    for pattern in (_LOGIN, _SHORT):
        for found in pattern.finditer(f"{start} {value}"):
            if found.end() > len(start) + 1:
                return found[1][len(start) + 1 :] + BLACK
    return ""
