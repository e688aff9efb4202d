"""What is special about TRL's trainers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlmguard.core.advice import Advice
from vlmguard.core.facts import Checkpointing
from vlmguard_transformers import rows
from vlmguard_transformers.profile import Profile
from vlmguard_trl import wishes


class Trl(Profile):
    """TRL's trainers; ms-swift's and LLaMA-Factory's, which subclass them, are their own."""

    name = "TRL"
    distributions = ("trl",)
    owns = ("trl.*:*",)
    flags: Mapping[str, str] = {
        "FindUnused": "--ddp_find_unused_parameters {value}",
        "SetVariant": "--gradient_checkpointing_kwargs '{{\"use_reentrant\": {use_reentrant}}}'",
        "NoCheckpointing": "--gradient_checkpointing false",
        "FreezeTower": "--vlmguard-freeze {tower}",
    }

    def spell(self, advice: Advice) -> str:
        """JSON's words for true and false, within JSON."""
        said = super().spell(advice)
        return said.replace("True}", "true}").replace("False}", "false}")

    def checkpointing(self, trainer: Any) -> Checkpointing:
        """TRL forces reentrant for PEFT under ZeRO-3: then its word is not the user's."""
        found = super().checkpointing(trainer)
        asked = wishes.of(trainer.args)
        if not found.on or asked == found.asked:
            return found
        return replace(found, asked=asked, decided_by="TRL, for PEFT under ZeRO-3")

    def models(self, trainer: Any) -> list[Any]:
        """GRPO keeps its reward models in a list of functions."""
        rewards = getattr(trainer, "reward_funcs", None) or ()
        found = [each for each in rewards if hasattr(each, "named_modules")]
        return [*super().models(trainer), *found]

    def rows(self, trainer: Any, dataset: Any) -> frozenset[str] | None:
        """TRL tokenizes beforehand only what has no media."""
        names = rows.columns(dataset)
        if names and "input_ids" in names and not any(rows.is_media(name) for name in names):
            return frozenset({"text"})
        return super().rows(trainer, dataset)


PROFILE = Trl()
