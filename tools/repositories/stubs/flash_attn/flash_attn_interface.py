"""Attention within each of the packed sequences."""

from __future__ import annotations

import itertools
from typing import Any

import torch


def flash_attn_varlen_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: Any, *_: Any,
    causal: bool = False, **__: Any,
) -> torch.Tensor:  # fmt: skip
    """(tokens, heads, size) each; ``cu_seqlens_q`` holds where the sequences begin and end."""
    ends = [int(end) for end in cu_seqlens_q]
    many = q.shape[1] // k.shape[1]
    found = []
    for first, last in itertools.pairwise(ends):
        parts = [each[first:last].transpose(0, 1) for each in (q, k, v)]
        parts[1:] = [each.repeat_interleave(many, 0) for each in parts[1:]]
        out = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal)
        found.append(out.transpose(0, 1))
    return torch.cat(found)


def __getattr__(name: str) -> Any:
    """Imported, never called: the models of these runs have another attention."""
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"flash_attn's {name} needs a GPU")

    return absent
