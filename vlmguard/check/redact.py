"""Secrets are blacked out of everything that is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable

BLACK = "***"
_WORD = (
    r"(?:token|api_?key|access_?key|secret|passwd|password|passphrase|credential|auth|webhook_url)"
)
_NOT = {"max_new_tokens", "num_tokens", "tokenizer", "tokens", "max_tokens"}
_NAME = re.compile(rf"(?:^|[^a-z]){_WORD}s?(?:$|[^a-z])|{_WORD}$|(?:^|_)key$|^sk$", re.I)
_GIVEN = ("-H", "--header", "-u", "--user", "--proxy-user")
"""Options of curl and wget behind which a secret stands."""
_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9]{12,}|\bsk-[A-Za-z0-9_-]{12,}|\bms-[0-9a-f]{8}-[0-9a-f-]{20,}|"
    r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\b[0-9a-f]{40}\b|"
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
)
_URL = re.compile(r"(\b[a-z][\w+.-]*://)([^\s/@]+)@", re.I)
_QUERY = re.compile(rf"([?&][\w-]*{_WORD}[\w-]*=)[^&\s]+", re.I)
_PAIR = re.compile(rf"""(["']?[\w.-]*{_WORD}["']?\s*[=:]\s*)(["']?)[^\s"',}}]+""", re.I)
_HEADER = re.compile(r"(\b(?:authorization|x-[\w-]*key)\s*:\s*)(?:bearer\s+|basic\s+)?\S+", re.I)


def secret(name: str) -> bool:
    """Whether a flag or variable of that name holds a secret."""
    bare = name.strip("-").replace("-", "_")
    bare = re.sub(r"([a-z])([A-Z])", r"\1_\2", bare).lower()
    return bare not in _NOT and _NAME.search(bare) is not None


def text(value: str) -> str:
    """Free text without tokens, passwords in URLs, and ``password=…``."""
    value = _URL.sub(rf"\1{BLACK}@", value)
    value = _QUERY.sub(rf"\1{BLACK}", value)
    value = _HEADER.sub(rf"\1{BLACK}", value)
    value = _PAIR.sub(_pair, value)
    return _SHAPES.sub(BLACK, value)


def _pair(found: re.Match[str]) -> str:
    name = re.split(r"[\s=:]", found[1].strip("\"'"))[0].strip("\"'")
    return f"{found[1]}{found[2]}{BLACK}" if secret(name) else found[0]


def words(values: Iterable[str]) -> list[str]:
    """A command's words: the value of a secret flag or variable goes, wherever it stands."""
    shown: list[str] = []
    hide = False
    for value in values:
        if hide and not value.startswith("--"):
            shown.append(BLACK)
            hide = False
            continue
        hide = False
        name, equals, _ = value.partition("=")
        if equals and re.fullmatch(r"-{0,2}[\w.-]+", name) and secret(name):
            shown.append(f"{name}={BLACK}")
            continue
        hide = (value.startswith("--") and secret(value)) or value in _GIVEN
        shown.append(text(value))
    return shown
