"""What is special about TRL's trainers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vlmguard.core.facts import Checkpointing
from vlmguard_transformers.data import columns
from vlmguard_transformers.profile import COMMAND_LINE, LOWER, Profile
from vlmguard_trl import user_arguments

_IDS = ("prompt_ids", "completion_ids", "chosen_ids", "rejected_ids")


class Trl(Profile):
    """TRL's trainers; ms-swift's and LLaMA-Factory's, which subclass them, are their own."""

    name = "TRL"
    distributions = ("trl",)
    owns = ("trl.*:*",)
    flags = COMMAND_LINE
    truth = LOWER

    def checkpointing(self, trainer: Any) -> Checkpointing:
        """TRL forces reentrant for PEFT under ZeRO-3: then its word is not the user's."""
        found = super().checkpointing(trainer)
        asked = user_arguments.of(trainer.args)
        if not found.on or asked == found.asked:
            return found
        return replace(found, asked=asked, decided_by="TRL, for PEFT under ZeRO-3")

    def models(self, trainer: Any) -> list[Any]:
        """GRPO keeps its reward models in a list of functions."""
        rewards = getattr(trainer, "reward_funcs", None) or ()
        found = [each for each in rewards if hasattr(each, "named_modules")]
        return [*super().models(trainer), *found]

    def rows(self, trainer: Any, dataset: Any) -> frozenset[str] | None:
        """TRL tokenizes beforehand only what has no media: rows, or the parts of a pair."""
        names = columns.columns(dataset)
        if any(map(_tokens, names)) and not any(map(columns.is_media, names)):
            return frozenset({"text"})
        return super().rows(trainer, dataset)


def _tokens(name: str) -> bool:
    """Whether TRL writes token ids into a column of this name."""
    return name.endswith("input_ids") or name in _IDS


PROFILE = Trl()
