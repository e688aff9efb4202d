"""Token ids as text, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def of(tokenizer: Any) -> Callable[[Sequence[int]], list[str]] | None:
    """Ids → the text of each, by a tokenizer or a processor; None if it has no ``decode``."""
    decode = getattr(getattr(tokenizer, "tokenizer", tokenizer), "decode", None)
    return None if decode is None else lambda ids: [_one(decode, int(each)) for each in ids]


def _one(decode: Callable[[Sequence[int]], Any], number: int) -> str:
    """A number below 0 stands for media (LLaVA's -200): no tokenizer has it."""
    return str(decode([number])) if number >= 0 else f"<{number}>"
