"""ms-swift's objects → facts. Reads what will happen, not what the flags say."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from vlmguard.core.facts import Certainty, Checkpointing, Run
from vlmguard.runtime import seams
from vlmguard_swift import decision, dummy, rows, shared
from vlmguard_transformers import families, freezing
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.gradients import Watch

_KINDS = {"vision": "vision_tower", "aligner": "aligner", "llm": "language_model",
          "generator": "generator"}  # fmt: skip
# Towers that their models call once per image or slice [read in their modeling files].
_PER_IMAGE = ("minicpmv", "minicpmo")
# ms-swift patches forward for these, under DeepSpeed only.
_PATCHED_FORWARD = ("qwen3_vl", "qwen3_omni")
# Their forwards were seen to be completed rightly.
_COMPLETES = ("Seq2SeqTrainer", "DPOTrainer", "KTOTrainer")
_FLAGS = {"vision": "freeze_vit", "aligner": "freeze_aligner", "llm": "freeze_llm"}


def arch(model: Any) -> Any:
    """ms-swift's ``MultiModelKeys`` of the model; None for a text model."""
    meta = getattr(model, "model_meta", None)
    found = getattr(meta, "model_arch", None)
    if isinstance(found, str):  # 3.x keeps the name
        from swift.llm.model.model_arch import get_model_arch

        found = get_model_arch(found)
    return found if getattr(meta, "is_multimodal", False) else None


def paths(model: Any) -> dict[str, tuple[str, ...]]:
    """Tower → module paths, from ms-swift's own registry."""
    keys = arch(model)
    if keys is None:
        return {}
    return {kind: tuple(getattr(keys, name, None) or ()) for kind, name in _KINDS.items()}


def watch(trainer: Any) -> Watch:
    """What is to be seen of this trainer's gradients."""
    return Watch(trainer.model, paths(trainer.model), untrained(trainer))


def untrained(trainer: Any) -> tuple[str, ...]:
    """Parts of names that this model family's forward never uses."""
    family = families.of(getattr(trainer.template, "config", None))
    return family.untrained(trainer.template.config) if family else ()


def run(trainer: Any, wish: tuple[str, ...], adapter_seams: Sequence[seams.Seam]) -> Run:
    """The run as it is about to be wrapped."""
    args, model = trainer.args, trainer.model
    strategy = hf.strategy(trainer)
    checkpoints = _checkpointed(args)
    towers = hf.towers(model, paths(model), checkpoints, lambda kind: _input_grads(model, kind))
    vision = next((t for t in towers if t.kind == "vision"), None)
    repeats: Certainty = "no"
    if vision is not None and vision.trainable and vision.checkpointed:
        name = getattr(arch(model), "arch_name", "")
        repeats = "yes" if name in _PER_IMAGE else "possible"
    freed = freezing.freed(model, wish, paths(model))
    sees = any(t.trainable for t in towers if t.kind in ("vision", "aligner"))
    idle = _idle(trainer, strategy, sees)
    ddp = strategy == "ddp"
    on = any(t.checkpointed for t in towers)
    return Run(
        framework="ms-swift",
        releases=hf.releases("ms-swift", "transformers", "peft", "deepspeed", "trl", "accelerate"),
        strategy=strategy,
        world=args.world_size,
        rank=args.process_index,
        tuning=getattr(args, "tuner_type", None) or getattr(args, "train_type", None) or "full",
        checkpointing=_checkpointing(args, on),
        towers=towers,
        forwards=2 if getattr(trainer, "chord_sft_dataset", None) else 1,
        repeats=repeats,
        shared=hf.shares_blocks(model),
        frozen=any(t.trainable < t.total for t in towers),
        may_be_unused=idle,
        can_pad=idle != "no" and _can_complete(trainer),
        pads=shared.completes(),
        find_unused=hf.find_unused(trainer, on) if ddp else None,
        static_graph=hf.static_graph(trainer) if ddp else None,
        accumulation=args.gradient_accumulation_steps,
        clipping=hf.clipping(trainer),
        freeze=wish,
        unfrozen=len(freed),
        unfrozen_example=freed[0] if freed else "",
        conflicting_flags=_defied(trainer, wish),
        missing_seams=seams.missing(adapter_seams),
    )


def _checkpointed(args: Any) -> Any:
    """Tower → whether its blocks will be checkpointed. Before 3.5 the tower has no flag."""
    language = bool(args.gradient_checkpointing)
    vision = bool(getattr(args, "vit_gradient_checkpointing", language))
    return lambda kind: vision if kind in ("vision", "aligner") else language


def _checkpointing(args: Any, on: bool) -> Checkpointing:
    asked = (args.gradient_checkpointing_kwargs or {}).get("use_reentrant")
    return Checkpointing(
        on=on,
        use_reentrant=decision.effective(),
        asked=asked,
        decided_by="ms-swift's default" if asked is None else "the user's flag",
    )


def _input_grads(model: Any, kind: str) -> bool | None:
    """ms-swift asks for input gradients on every tower; one that shows no input embeddings raises
    or warns (by release of transformers), which is only logged."""
    if kind != "vision":
        return None
    towers = [_deep(model, path) for path in paths(model).get("vision", ())]
    return None if all(tower is None or _shows_embeddings(tower) for tower in towers) else False


def _shows_embeddings(tower: Any) -> bool:
    """Whether transformers can hang its hook on this tower, or on a model inside it."""
    for module in tower.modules():
        if hasattr(module, "enable_input_require_grads"):
            try:
                if hasattr(module.get_input_embeddings(), "register_forward_hook"):
                    return True
            except NotImplementedError:
                continue
    return False


def _deep(model: Any, path: str) -> Any:
    inner = getattr(getattr(model, "base_model", None), "model", None)
    for root in (model, inner):
        found = root
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None


def _idle(trainer: Any, strategy: str, trains: bool) -> Certainty:
    """Whether a batch can leave a trainable tower unused."""
    if arch(trainer.model) is None or not trains:
        return "no"
    if own_dummy(trainer, strategy):
        return "no"
    if getattr(trainer, "chord_sft_dataset", None):
        return "possible"
    kinds = rows.kinds(trainer.train_dataset)
    if kinds is None:
        return "possible"
    if kinds == {"text"}:  # no rank ever uses it: ZeRO has nothing to wait for, DDP does
        return "no" if strategy.startswith("zero") else "yes"
    return "yes" if kinds == {"image", "text"} else "no"


def own_dummy(trainer: Any, strategy: str) -> bool:
    """Whether ms-swift itself runs the tower on a dummy image for a text-only batch.

    Read from the template that will run: through ``_get_inputs_embeds_hf`` always (from 3.8), or
    where it asks ``is_deepspeed_enabled()``.
    """
    if getattr(arch(trainer.model), "arch_name", "") in _PATCHED_FORWARD:
        return strategy.startswith("zero")
    try:
        source = inspect.getsource(type(trainer.template)._post_encode)
    except (OSError, TypeError, AttributeError):
        return False
    if "_get_inputs_embeds_hf" in source:
        return True
    return "is_deepspeed_enabled()" in source and strategy.startswith("zero")


def _can_complete(trainer: Any) -> bool:
    if families.of(getattr(trainer.template, "config", None)) is None:
        return False
    if not dummy.possible(trainer):
        return False
    return type(trainer).__name__ in _COMPLETES and not getattr(trainer, "padding_free", False)


def _defied(trainer: Any, wish: tuple[str, ...]) -> tuple[str, ...]:
    """Framework flags, given by the user, that ask for what the wish forbids."""
    args = getattr(trainer, "args", None)
    found = []
    for word in wish:
        flag = _FLAGS.get(word)
        if flag and getattr(args, flag, None) is False and flag != "freeze_llm":
            found.append(f"--{flag} false")
    return tuple(found)
