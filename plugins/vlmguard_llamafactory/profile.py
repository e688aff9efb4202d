"""What is special about LLaMA-Factory's trainers."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlmguard.core.facts import Certainty, Checkpointing, Strategy
from vlmguard_transformers.profile import LOWER, WORDS, Profile

_FREEZES = {
    "vision": "freeze_vision_tower",
    "aligner": "freeze_multi_modal_projector",
    "llm": "freeze_language_model",
}


class LlamaFactory(Profile):
    """Trainers of all stages; its words for towers are those of its own flags."""

    name = "LLaMA-Factory"
    distributions = ("llamafactory",)
    owns = ("llamafactory.*:*",)
    flags: Mapping[str, str] = {
        "FindUnused": "ddp_find_unused_parameters: {value}",
        "StaticGraph": "ddp_static_graph: {value}",
        "SetVariant": "use_reentrant_gc: {use_reentrant}",
        "NoCheckpointing": "disable_gradient_checkpointing: true",
        "FreezeTower": "vlmguard_freeze: {tower}",
    }
    truth = LOWER
    words: Mapping[str, str] = {
        **WORDS,
        "vision_tower": "vision",
        "multi_modal_projector": "aligner",
        "language_model": "llm",
    }

    def checkpointing(self, trainer: Any) -> Checkpointing:
        """Switched on on the model, reentrant unless the user says otherwise."""
        found = super().checkpointing(trainer)
        if not found.on or found.use_reentrant is not True:
            return found
        return replace(found, asked=None, decided_by="LLaMA-Factory's default")

    def pads_itself(self, trainer: Any, strategy: Strategy) -> Certainty:
        """From 0.9.2 its collator puts a blank image into a batch with neither image nor video, for
        every model whose plug-in has a token for one."""
        collator = _collator(trainer)
        plugin = getattr(getattr(collator, "template", None), "mm_plugin", None)
        if getattr(plugin, "image_token", None) is None:
            return "no"
        return "yes" if "fake_images" in _source(type(collator)) else "no"

    def conflicting_flags(self, trainer: Any, policy: tuple[str, ...]) -> tuple[str, ...]:
        args = getattr(trainer, "finetuning_args", None)
        asked = [_FREEZES[word] for word in policy if word in _FREEZES]
        # The language model trains by default, so its flag tells no wish of the user.
        told = [flag for flag in asked[:2] if getattr(args, flag, None) is False]
        return tuple(f"{flag}: false" for flag in told if flag != _FREEZES["llm"])


def _source(kind: type) -> str:
    """What the collator and those that it inherits from do, as text; "" where it is not at hand."""
    found = []
    for each in kind.__mro__:
        with contextlib.suppress(OSError, TypeError, KeyError):
            found.append(inspect.getsource(vars(each)["__call__"]))
    return "\n".join(found)


def _collator(trainer: Any) -> Any:
    """The collator, out of what the Trainer or we put around it."""
    found = getattr(trainer, "data_collator", None)
    for name in ("data_collator", "collate"):
        found = getattr(found, name, found)
    return found


PROFILE = LlamaFactory()
