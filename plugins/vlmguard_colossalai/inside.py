"""The blank image inside the model's own forward: where its class, observed, shows it right.

A batch is left as it is: nothing of it changes length, meaning or loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vlmguard.runtime import report
from vlmguard_torch import blank, inputs, observe, places
from vlmguard_torch.observed import Observed


@contextmanager
def _on(model: Any) -> Iterator[blank.Blank]:
    """``model`` with the blank, for the time of an observation."""
    put = blank.install(model, when="always", say=lambda _: None)
    try:
        yield put
        if put.fault:
            raise RuntimeError(put.fault)
    finally:
        put.close()


def observed(model: Any) -> Observed | None:
    """What rows use of ``model``, and whether a blank image changes nothing in it; None for what
    cannot be a model of transformers."""
    if not hasattr(getattr(model, "config", None), "to_dict"):
        return None
    return observe.observe(model, blank=_on)


def why_not(model: Any, facts: Observed | None) -> str:
    """Why the model can run no blank image by itself; "" where it can."""
    if facts is None:
        return f"{type(model).__name__} is no model of transformers"
    if reason := blank.possible(model):
        return reason
    if not facts:
        return f"{type(model).__name__} could not be observed: {facts.reason}"
    if facts.blank_neutral is not True:
        return f"a blank image is not seen to change nothing in {type(model).__name__}"
    return ""


def entries(model: Any) -> tuple[str, ...]:
    """What a batch with an image has and one without lacks."""
    found = places.find(model)
    return tuple(inputs.from_config(found.owner, found.kinds[0]))


def install(model: Any, always: bool) -> blank.Blank:
    """Put it into ``model``, boosted or not. ``always``: in evaluation too, frozen or not."""
    return blank.install(
        model,
        when="always" if always else "training",
        say=lambda text: report.line(text.removeprefix("vlmguard: ")),
    )
