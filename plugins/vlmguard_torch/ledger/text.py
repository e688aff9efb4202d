"""Token ids as text, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def of(tokenizer: Any) -> Callable[[Sequence[int]], list[str]] | None:
    """Ids → the text of each, by a tokenizer or a processor; None if it has no ``decode``."""
    decode = getattr(getattr(tokenizer, "tokenizer", tokenizer), "decode", None)
    return None if decode is None else lambda ids: [str(decode([int(each)])) for each in ids]
