"""One watched window as plain data: a line of the report, and what line, logs and pages show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from vlmguard.ledger.account import Account, Page, Tensor, Verdict

KIND = "ledger"
"""The report's word for such a line."""
TOWERS = ("vision", "audio", "aligner", "llm", "other")


def record(
    account: Account, verdicts: Sequence[Verdict], pages: Sequence[Page | None] = ()
) -> dict[str, Any]:
    """What was seen in one window, as JSON."""
    heard = [page for page in pages if page is not None]
    first: Page = heard[0] if heard else {}
    return {
        "window": first.get("window"),
        "step": first.get("step"),
        "micro": first.get("micro"),
        "kinds": sorted({str(kind) for page in heard for kind in page.get("kinds", ())}),
        "ranks": account.world,
        "heard": len(heard) if pages else None,
        "strategy": account.strategy,
        "towers": towers(account),
        "stations": {each.station: _station(each) for each in verdicts},
    }


def towers(account: Account) -> dict[str, dict[str, Any]]:
    """Tower → its tensors and parameters, how many are trainable, how many an optimizer holds."""
    kinds = {tensor.kind: [] for tensor in account.tensors}  # type: dict[str, list[Tensor]]
    for tensor in account.tensors:
        kinds[tensor.kind].append(tensor)
    order = [*(kind for kind in TOWERS if kind in kinds), *sorted(kinds.keys() - set(TOWERS))]
    return {kind: _tower(kinds[kind]) for kind in order}


def _tower(tensors: Sequence[Tensor]) -> dict[str, Any]:
    trainable = [tensor for tensor in tensors if tensor.trainable]
    return {
        "tensors": len(tensors),
        "parameters": sum(tensor.numel for tensor in tensors),
        "trainable": len(trainable),
        "trained": sum(tensor.numel for tensor in trainable),
        "held": sum(tensor.group is not None for tensor in trainable),
        "groups": sorted({tensor.group for tensor in trainable if tensor.group is not None}),
    }


def _station(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": verdict.state,
        "reason": verdict.reason,
        "shown": plain(verdict.shown),
        "entries": [plain(dataclasses.asdict(entry)) for entry in verdict.entries],
    }


def plain(value: Any) -> Any:
    """Strict JSON: a number that is not finite becomes a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
