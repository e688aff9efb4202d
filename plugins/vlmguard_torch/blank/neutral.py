"""Whether a model can run a blank input by itself: tried on a tiny copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vlmguard_torch.blank import blank_input
from vlmguard_torch.layout import model_layout
from vlmguard_torch.observe import observer
from vlmguard_torch.observe.observed import Observed


def kinds(model: Any) -> tuple[str, ...]:
    """All kinds of input of which a blank can be made, in the model's own order."""
    found = model_layout.find(model).kinds
    return tuple(kind for kind in found if not blank_input.possible(model, kinds=(kind,)))


@contextmanager
def _on(model: Any) -> Iterator[blank_input.Blank]:
    """``model`` with the blank, for the time of an observation."""
    put = blank_input.install(model, when="always", kinds=kinds(model), say=lambda _: None)
    try:
        yield put
        if put.fault:
            raise RuntimeError(put.fault)
    finally:
        put.close()


def observed(model: Any) -> Observed:
    """What rows use of ``model``, and whether a blank input changes nothing in it."""
    return observer.observe(model, blank=_on)


def why_not(model: Any, facts: Observed) -> str:
    """Why the model can run no blank input by itself; "" where it was seen to."""
    if reason := blank_input.possible(model):
        return reason
    if not facts:
        return f"{type(model).__name__} could not be observed: {facts.reason}"
    if blank_input.guessed(model) and not any(
        kind.ran and kind.kind != "text" for kind in facts.kinds
    ):
        return f"no row with an input for its towers could be made for {type(model).__name__}"
    if facts.blank_neutral is not True:
        return f"a blank input is not seen to change nothing in {type(model).__name__}"
    return ""
