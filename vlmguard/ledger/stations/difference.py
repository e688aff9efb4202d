"""What became of a gradient that is not conserved, where its numbers tell."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard.ledger.stations.factor import SIGN
from vlmguard.ledger.stations.flows import Flow
from vlmguard.ledger.stations.vectors import Vector, length, mean, plus

WRONG = (
    "own", "ranks", "missing", "twice", "earlier", "earlier too", "first", "later", "grown",
    "negated",
)  # fmt: skip
"""What is an error; all else only alters values, and may be meant."""


def difference(flow: Flow, factor: float, earlier: Sequence[Vector]) -> tuple[str, int | None]:
    """A word for it, and the rank that it names.

    Args:
        factor: the one common to all tensors of the optimizer.
        earlier: what optimizers got of this tensor in windows before, and what was made of it.
    """
    if not flow.has:
        return "dropped", None
    if len(flow.given) > 1 and not _alike(flow):
        own = all(
            flow.fits(given, flow.step[r], factor) or flow.fits(given, flow.none[r], factor)
            for r, given in enumerate(flow.given)
        )
        return ("own" if own else "ranks"), None
    return _named(flow, flow.given[0], factor, earlier) or (_kind(flow, factor), None)


def _alike(flow: Flow) -> bool:
    return all(flow.fits(each, flow.given[0]) for each in flow.given[1:])


def _named(
    flow: Flow, given: Vector, factor: float, earlier: Sequence[Vector]
) -> tuple[str, int | None] | None:
    made, world = flow.sums[0], len(flow.step)
    if _earlier(flow, given, factor, earlier):
        return "earlier", None
    if flow.fits(given, made, 2 * factor):
        return "twice", None
    for rank, part in enumerate(flow.step if world > 1 else ()):
        if length(part) > flow.bound * length(made) * world:
            if flow.fits(given, plus(made, part, -1 / world), factor):
                return "missing", rank
            if flow.fits(given, plus(made, part, 1 / world), factor):
                return "twice", rank
    first = mean(flow.first)
    kept = [made]
    if max(flow.parts) > 1:
        kept = [made, first, plus(made, first, -1.0)]
        for word, part in zip(("first", "later"), kept[1:], strict=True):
            if flow.fits(given, part, factor):
                return word, None
    if any(_earlier(flow, plus(given, part, -factor), factor, earlier) for part in kept):
        return "earlier too", None
    return None


def _earlier(flow: Flow, given: Vector, factor: float, earlier: Sequence[Vector]) -> bool:
    """Whether it is a gradient of a window before."""
    size = length(given)
    if size <= flow.bound * max(length(flow.given[0]), flow.energy):
        return False
    return any(
        length(plus(given, before, -each)) <= flow.bound * max(size, flow.energy)
        for before in earlier
        for each in (1.0, factor)
    )


def _kind(flow: Flow, factor: float) -> str:
    """Not a known fault: how it differs."""
    own = flow.factor
    if own is not None:
        return "negated" if own * factor < 0 else "scaled"
    size = max(length(made) for made in flow.sums) * abs(factor)
    return "grown" if length(flow.given[0]) > 1.3 * size else "altered"


SENTENCES = {
    "own": "gradients are not averaged",
    "ranks": "the ranks' optimizers get different gradients",
    "missing": "rank {rank}'s part of the gradient is missing",
    "twice": "the optimizer gets the gradient twice",
    "rank twice": "rank {rank}'s part of the gradient counts twice",
    "earlier": "the optimizer gets the gradient of an earlier step",
    "earlier too": "the gradient of an earlier step is added to this one's",
    "first": "only the first of several gradients of a parameter counts",
    "later": "the first of several gradients of a parameter is lost",
    "grown": "the optimizer gets another gradient than the backward made",
    "negated": "gradients of some tensors are negated",
    "scaled": "gradients were scaled tensor by tensor between backward and step",
    "altered": "gradients were changed between backward and step",
    "by value": "gradients were clipped by value",
    "dropped": "gradients were dropped between backward and step",
}


_STRATEGY = (
    "type vlmguard compat --strategy {strategy}; or try plain DDP, and report it to the strategy's "
    "authors if that is right"
)
_TWICE = "set the other use_reentrant (vlmguard compat --strategy {strategy})"
_STALE = "clear gradients in each step (set_to_none)"
_BLANK = "give rows without an image a blank image"
ADVICE = {
    "own": "call the wrapped model, not the one inside",
    "no_sync": "leave no_sync() for the last micro-batch",
    "ranks": "look for a hook or a clipping of one rank alone",
    "missing": "call the wrapped model on each rank; or look for a gradient that comes too late",
    "twice": _TWICE,
    "earlier": _STALE,
    "earlier too": _STALE,
    "first": _TWICE,
    "later": _TWICE,
    "negated": SIGN,
    "grown": "look for code that writes to .grad between backward and step",
}
"""What usually causes it; for what only alters values, `_STRATEGY`."""


def advice(word: str, strategy: str = "") -> str:
    """What to do about it, or what usually causes it. Between backward and DeepSpeed's step there
    is no place for a user's code."""
    if word == "earlier" and strategy == "zero3":
        return f"{_BLANK}; or {_STALE}"
    inside = word == "grown" and strategy.startswith("zero")
    told = _STRATEGY if inside else ADVICE.get(word, _STRATEGY)
    return told.format(strategy=strategy or "ddp")


def sentence(word: str, rank: int | None) -> str:
    """The difference in words."""
    if word == "twice" and rank is not None:
        word = "rank twice"
    return SENTENCES[word].format(rank=rank)
