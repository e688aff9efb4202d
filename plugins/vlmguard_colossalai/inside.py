"""The blank image inside the model's own forward: where its class, observed, shows it right.

A batch is left as it is: nothing of it changes length, meaning or loss.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_torch import apart, blank, inputs, neutral, places
from vlmguard_torch.observed import Observed


def observed(model: Any) -> Observed | None:
    """What rows use of ``model``, and whether a blank input changes nothing in it; None for what
    cannot be a model of transformers."""
    if not hasattr(getattr(model, "config", None), "to_dict"):
        return None
    return neutral.observed(model)


def why_not(model: Any, facts: Observed | None) -> str:
    """Why the model can run no blank input by itself; "" where it can."""
    if facts is None:
        return f"{type(model).__name__} is no model of transformers"
    return neutral.why_not(model, facts)


def entries(model: Any) -> tuple[str, ...]:
    """What a batch with an image has and one without lacks."""
    found = places.find(model)
    return tuple(inputs.from_config(found.owner, found.kinds[0]))


def install(model: Any, always: bool, state: RunState) -> blank.Blank:
    """Put it into ``model``, boosted or not. ``always``: in evaluation too, frozen or not, and of
    every kind that the model takes: which of them the other ranks have is not known."""
    return blank.install(
        model,
        when="always" if always else "training",
        kinds=neutral.kinds(model) if always else None,
        say=lambda text: report.line(text.removeprefix("vlmguard: ")),
        failed=partial(apart.judge, state, 0),
    )
