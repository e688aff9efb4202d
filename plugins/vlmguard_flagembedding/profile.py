"""What is special about FlagEmbedding's trainers: the model around the user's, its parts by name,
and queries and passages encoded one after the other."""

from __future__ import annotations

from typing import Any

from vlmguard.core import settings
from vlmguard.core.facts import Checkpointing
from vlmguard_flagembedding.names import Named
from vlmguard_torch.layout.parameters import Parameters
from vlmguard_transformers import checkpointing
from vlmguard_transformers.profile import COMMAND_LINE, LOWER, Paths, Profile

# The language model is everything except its heads.
_PARTS = {
    "embed": ("embeddings",),
    "embedding": ("embeddings",),
    "heads": ("head",),
    "llm": ("embeddings", "llm"),
    "language": ("embeddings", "llm"),
}


class FlagEmbedding(Profile):
    name = "FlagEmbedding"
    distributions = ("FlagEmbedding",)
    owns = ("FlagEmbedding.abc.finetune.*:Abs*Trainer",)
    speaks = True
    flags = COMMAND_LINE
    truth = LOWER

    def policy(self) -> tuple[str, ...]:
        words = (_PARTS.get(word.lower(), (word,)) for word in settings.get().freeze)
        return tuple(dict.fromkeys(part for parts in words for part in parts))

    def model(self, trainer: Any) -> Any:
        return Named(trainer.model)

    def towers(self, trainer: Any) -> Paths:
        return Named(trainer.model).towers()

    def parts(self, trainer: Any) -> Paths:
        return Named(trainer.model).parts()

    def tuning(self, trainer: Any) -> str:
        return "full" if Named(trainer.model).inner is trainer.model.model else "lora"

    def never_used(self, trainer: Any, parameters: Parameters) -> tuple[str, ...]:
        """Embedders take the last hidden state: a pooler behind it is never called."""
        pooler = Named(trainer.model).towers()["pooler"]
        named = parameters.named_parameters() if pooler else ()
        return tuple(name for name, p in named if p.requires_grad and name.startswith("pooler."))

    def checkpointing(self, trainer: Any) -> Checkpointing:
        model, args = Named(trainer.model), trainer.args
        asked = checkpointing.asked(args)
        on = checkpointing.flagged(args) and _trains_blocks(model)
        return Checkpointing(
            on,
            checkpointing.effective(args, model.inner) if on else None,
            asked,
            "transformers' default" if asked is None else "the user's flag",
        )

    def checkpointed(self, trainer: Any, kind: str, paths: tuple[str, ...] = ()) -> bool:
        return kind == "llm" and self.checkpointing(trainer).on

    def forwards(self, trainer: Any) -> int:
        """Queries, then passages; each in several passes with --sub_batch_size."""
        return 2 if Named(trainer.model).embeds else 1

    def dry_run_obstacle(self, trainer: Any) -> str:
        if getattr(trainer.model, "negatives_cross_device", False) and trainer.args.world_size > 1:
            return "--negatives_cross_device: a forward needs every rank"
        return ""


def _trains_blocks(model: Named) -> bool:
    """Whether a checkpointed block holds anything trainable: m3's --fix_encoder leaves none."""
    return any(
        parameter.requires_grad and any(part.isdigit() for part in name.split("."))
        for name, parameter in model.named_parameters()
    )


PROFILE = FlagEmbedding()
