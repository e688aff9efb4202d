"""Messages that somebody typed, or that a page gave back: in another case, without punctuation."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from vlmguard.explain.failure import Known, Sign

LEAST = 20  # characters of a text that tell without their case and punctuation
_OTHER = re.compile(r"[\W_]+")


@functools.lru_cache(maxsize=8192)
def plain(text: str) -> str:
    """The words alone, in lower case, a space before and behind each."""
    return f" {_OTHER.sub(' ', text.lower()).strip()} "


def told(message: str, catalogue: Sequence[Known]) -> Known | None:
    """The failure whose message this is but for case and punctuation."""
    said = plain(message[:2000])
    found = [(known.narrow, size, known) for known in catalogue if (size := _longest(known, said))]
    return max(found, key=lambda f: f[:2])[2] if found else None


def _longest(known: Known, said: str) -> int:
    signs = [s for s in known.signs if s.where == "message" and _bears(s, said)]
    return max((len(s.text) for s in signs), default=0)


def _bears(sign: Sign, said: str) -> bool:
    text = plain(sign.text)
    if len(text) < LEAST or text not in said:
        return False
    more = all(plain(words) in said for words in (*sign.also, *sign.beside))
    return more and not any(plain(words) in said for words in sign.no)
