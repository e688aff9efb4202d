"""FlagEmbedding's objects → facts. Reads what will happen, not what the flags say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlmguard.core import settings
from vlmguard.core.facts import Checkpointing, Run
from vlmguard.runtime import seams
from vlmguard_flagembedding.names import Named
from vlmguard_transformers import checkpointing, freezing
from vlmguard_transformers import trainer as hf

# The language model is all but its heads.
_PARTS = {
    "embed": ("embeddings",),
    "embedding": ("embeddings",),
    "heads": ("head",),
    "llm": ("embeddings", "llm"),
    "language": ("embeddings", "llm"),
}


def freeze_wish() -> tuple[str, ...]:
    """The freeze wish in the words of `Named.parts`."""
    words = (_PARTS.get(word.lower(), (word,)) for word in settings.get().freeze)
    return tuple(dict.fromkeys(part for parts in words for part in parts))


def run(trainer: Any, wish: tuple[str, ...], adapter_seams: Sequence[seams.Seam]) -> Run:
    """The run as it is about to be wrapped."""
    args, model = trainer.args, Named(trainer.model)
    strategy = hf.strategy(trainer)
    ddp = strategy == "ddp"
    flagged = checkpointing.flagged(args)
    on = flagged and _trains_blocks(model)
    towers = hf.towers(model, model.towers(), lambda kind: on and kind == "llm")
    against = freezing.freed(model, wish, model.parts())
    idle = any(tower.kind == "pooler" and tower.trainable for tower in towers)
    return Run(
        framework="FlagEmbedding",
        releases=hf.releases("FlagEmbedding", "transformers", "peft", "deepspeed", "accelerate"),
        strategy=strategy,
        world=args.world_size,
        rank=args.process_index,
        tuning="full" if model.inner is trainer.model.model else "lora",
        checkpointing=_checkpointing(args, model, on),
        towers=towers,
        # Queries, then passages; each in several passes with --sub_batch_size.
        forwards=2 if model.embeds else 1,
        shared=hf.shares_blocks(model),
        frozen=any(tower.trainable < tower.total for tower in towers),
        # ZeRO sees no gradient of it in any step, so nothing is stale and nobody waits.
        may_be_unused="yes" if ddp and idle else "no",
        find_unused=hf.find_unused(trainer, flagged) if ddp else None,
        static_graph=hf.static_graph(trainer) if ddp else None,
        accumulation=args.gradient_accumulation_steps,
        clipping=hf.clipping(trainer),
        freeze=wish,
        unfrozen=len(against),
        unfrozen_example=against[0] if against else "",
        missing_seams=seams.missing(adapter_seams),
    )


def _trains_blocks(model: Named) -> bool:
    """Whether a checkpointed block holds anything trainable: m3's --fix_encoder leaves none."""
    return any(
        parameter.requires_grad and any(part.isdigit() for part in name.split("."))
        for name, parameter in model.named_parameters()
    )


def _checkpointing(args: Any, model: Named, on: bool) -> Checkpointing:
    asked = checkpointing.asked(args)
    return Checkpointing(
        on=on,
        use_reentrant=checkpointing.effective(args, model.inner) if on else None,
        asked=asked,
        decided_by="transformers' default" if asked is None else "the user's flag",
    )
