"""Which tensors, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vlmguard.ledger.account import Account, Tensor


def told(account: Account, numbers: Iterable[int], among: Iterable[int] | None = None) -> str:
    """ "12 of 20 vision tensors, 3 of 40 llm tensors"; the name of a single one.

    Args:
        numbers: places in the account.
        among: of which they are; all tensors if not given.
    """
    chosen = sorted(set(numbers))
    if len(chosen) == 1:
        return account.tensors[chosen[0]].name
    whole = _kinds(account, range(len(account.tensors)) if among is None else set(among))
    found = _kinds(account, chosen)
    return ", ".join(
        f"{number} of {whole[kind]} {'' if kind == 'other' else kind + ' '}tensors"
        for kind, number in found.items()
    )


def _kinds(account: Account, numbers: Iterable[int]) -> Counter[str]:
    return Counter(account.tensors[n].kind for n in sorted(numbers))


def by_kind(tensors: Sequence[Tensor]) -> dict[str, list[int]]:
    """Kind → places."""
    found: dict[str, list[int]] = {}
    for n, tensor in enumerate(tensors):
        found.setdefault(tensor.kind, []).append(n)
    return found
