"""Whether the ranks run the towers equally often in a forward, where nobody evens it out.

Gemini gathers by the count of operations, so ranks with different counts wait for each other. Each
rank writes into the rendezvous store how often its batch runs the towers. Then it looks for another
answer to the same forward. So of two ranks that differ at least one sees it, and no rank has
waited. It takes three requests for a forward, and only where no blank can be made, or one for each
tower but not one for each input (a tower under reentrant checkpointing runs once in a forward:
`inside.kinds`).
"""

from __future__ import annotations

from collections.abc import Iterable

from vlmguard import agree
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.runtime import exchange, ranks
from vlmguard_colossalai.rules import vg205_text_only_gemini as rule

_KEPT = 4
"""Forwards whose marks stay in the store."""


class CallCountSync:
    """Training forwards of one boosted model.

    least: how often every forward runs the towers, on a blank input where it has none.
    """

    def __init__(self, state: RunState, least: int = 0) -> None:
        self.state, self.least = state, least
        self.forwards = 0

    def compare(self, kinds: Iterable[str]) -> Finding | None:
        """``kinds`` of input in this rank's batch, as it goes into the model."""
        self.forwards += 1
        mine = max(self.least, _times(kinds))
        if agree.token(self.state) is None:
            return None  # it could find marks of an earlier membership
        if not exchange.leave(self._mark(self.forwards, mine), self.state.number):
            return None
        others = [times for times in range(3) if times != mine]
        found = [
            t for t in others if exchange.left(self._mark(self.forwards, t), self.state.number)
        ]
        self._forget(mine)
        return rule.ranks_differ(mine, found[0], bool(self.least)) if found else None

    def _forget(self, mine: int) -> None:
        """All ranks left the same mark, or one of them has stopped."""
        if ranks.rank() == 0 and self.forwards > _KEPT:
            old = [self._mark(self.forwards - _KEPT, times) for times in range(3)]
            exchange.forget(old, self.state.number)

    def _mark(self, forward: int, times: int) -> str:
        return f"towers/{agree.token(self.state)}/{forward}/{times}"


def _times(kinds: Iterable[str]) -> int:
    """How often a batch runs a tower: an image and a video are two calls of it."""
    media = {*kinds} - {"text"}
    return 2 if {"image", "video"} <= media else min(len(media), 1)
