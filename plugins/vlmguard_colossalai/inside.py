"""The blank image inside the model's own forward: where its class, observed, shows it right.

A batch is left as it is: nothing of it changes length, meaning or loss.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_torch.blank import blank_input, neutral, rank_divergence
from vlmguard_torch.layout import model_checkpointing, model_layout
from vlmguard_torch.layout.towers import plain
from vlmguard_torch.media import blank_media
from vlmguard_torch.observe.observed import Observed


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
    wanted = neutral.kinds(model)
    return neutral.why_not(model, facts, wanted) or neutral.untried(model, facts)


def entries(model: Any) -> tuple[str, ...]:
    """What a batch with an image has and one without lacks."""
    found = model_layout.find(model)
    return tuple(blank_media.from_config(found.owner, found.kinds[0]))


def install(model: Any, always: bool, state: RunState, facts: Observed | None) -> blank_input.Blank:
    """Put it into ``model``, boosted or not, as ``facts`` show it right. ``always``: in evaluation
    too, frozen or not, and of every kind that can be run: which of them the other ranks have is
    not known."""
    return blank_input.install(
        model,
        when="always" if always else "training",
        kinds=kinds(model) if always else None,
        say=lambda text: report.line(text.removeprefix("vlmguard: ")),
        failed=partial(rank_divergence.judge, state, 0),
        **neutral.recipe(model, facts),
    )


def kinds(model: Any) -> tuple[str, ...]:
    """The kinds of which every forward runs one, a blank one where it has none: all, but of those
    that one tower sees only the first where that is checkpointed and not known to be so without
    reentry. Gemini reduces a gradient at its first nested backward, and fails at a second one."""
    found = neutral.kinds(model)
    if len(found) < 2 or model_checkpointing.of_model(model).use_reentrant is False:
        return found
    towers, left, used = model_layout.find(model), [], set()
    above = _path(model, towers.owner)
    for kind in found:
        paths = tuple(above + path for path in towers.towers[kind])
        if not used & {*paths} or not model_checkpointing.checkpointed(model, paths):
            left.append(kind)
        used |= {*paths}
    return tuple(left)


def several(model: Any) -> bool:
    """Whether a batch can run a tower more often than `kinds` make every batch do."""
    return len(kinds(model)) < len(neutral.kinds(model))


def _path(model: Any, inner: Any) -> str:
    """The plain path of a module in ``model``, to put names behind."""
    name = next((name for name, module in model.named_modules() if module is inner), "")
    return f"{plain(name)}." if name else ""
