"""What is special about ms-swift's trainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vlmguard.core.facts import Certainty, Checkpointing, Strategy
from vlmguard.core.findings import NoCheckpointing
from vlmguard.runtime import report
from vlmguard_swift import SEAMS, decision, model_registry, own_blank
from vlmguard_torch.layout.towers import without_adapters
from vlmguard_torch.transaction import Transaction
from vlmguard_torch.watch import dry_run
from vlmguard_transformers.profile import COMMAND_LINE, LOWER, Paths, Profile

# What ``Seq2SeqTrainer.compute_loss`` removes from a batch before forward.
_OF_THE_LOSS = ("compute_loss_func", "loss_scale", "text_position_ids", "channel")
_FLAGS = {"vision": "freeze_vit", "aligner": "freeze_aligner"}


class Swift(Profile):
    name = "ms-swift"
    distributions = ("ms-swift",)
    owns = ("swift.trainers.mixin:SwiftMixin",)
    speaks = True
    seams = SEAMS
    hears_batches = True
    flags: Mapping[str, str] = {
        **COMMAND_LINE,
        "Strategy": "--deepspeed {name}",
        "LongerRows": "raise --max_length, or lower MAX_PIXELS",
    }
    truth = LOWER

    def spell(self, advice: Any) -> str:
        """A tower's checkpointing has a flag of its own, from 3.5 on."""
        words = super().spell(advice)
        if isinstance(advice, NoCheckpointing) and advice.tower:
            return words.replace("--grad", "--vit_grad")
        return words

    def owners(self, trainer: Any) -> tuple[Any, ...]:
        """Rows are encoded and collated by the template, before the trainer sees them."""
        return (getattr(trainer, "template", None),)

    def towers(self, trainer: Any) -> Paths:
        """From ms-swift's own registry."""
        return model_registry.towers(trainer.model)

    def tuning(self, trainer: Any) -> str:
        args = trainer.args
        return getattr(args, "tuner_type", None) or getattr(args, "train_type", None) or "full"

    def checkpointing(self, trainer: Any) -> Checkpointing:
        args = trainer.args
        on = any(self.checkpointed(trainer, kind) for kind in (*self.towers(trainer), "other"))
        asked = (args.gradient_checkpointing_kwargs or {}).get("use_reentrant")
        decided = "ms-swift's default" if asked is None else "the user's flag"
        return Checkpointing(on, decision.effective(), asked, decided)

    def checkpointed(self, trainer: Any, kind: str, paths: tuple[str, ...] = ()) -> bool:
        """Before 3.5 the tower has no flag."""
        language = bool(trainer.args.gradient_checkpointing)
        if kind not in ("vision", "aligner", "audio"):
            return language
        return bool(getattr(trainer.args, "vit_gradient_checkpointing", language))

    def set_variant(self, trainer: Any, use_reentrant: bool, transaction: Transaction) -> None:
        decision.remake(trainer, use_reentrant, transaction)

    def input_grads(self, trainer: Any, kind: str) -> bool | None:
        return model_registry.input_grads(trainer.model, kind)

    def forwards(self, trainer: Any) -> int:
        return 2 if getattr(trainer, "chord_sft_dataset", None) else 1

    def generates(self, trainer: Any) -> bool:
        """GRPO and its kin; and evaluation by what the model generates, for which ms-swift gathers
        ZeRO-3's weights and takes its hooks off."""
        if self.samples(trainer):
            return True
        args = trainer.args
        when = getattr(args, "eval_strategy", "no")
        evaluates = getattr(when, "value", when) != "no"
        asked = evaluates and getattr(args, "predict_with_generate", False)
        return bool(asked and getattr(args, "ds3_gather_for_generation", True))

    def samples(self, trainer: Any) -> bool:
        """GRPO and its kin."""
        return getattr(trainer, "num_generations", None) is not None

    def repeats(self, trainer: Any) -> Certainty | None:
        return "possible" if own_blank.encodes(trainer) else None

    def rows(self, trainer: Any, dataset: Any) -> frozenset[str] | None:
        if getattr(trainer, "chord_sft_dataset", None):
            return None  # rows of a second data set come too
        return super().rows(trainer, dataset)

    def pads_itself(self, trainer: Any, strategy: Strategy) -> Certainty:
        return own_blank.pads(trainer, strategy)

    def left_idle(self, trainer: Any) -> frozenset[str]:
        """Tried where a template's dummy may be for some towers alone; where it cannot be, its
        source is believed, and that is said."""
        from vlmguard_swift import own_trial

        model = without_adapters(self.model(trainer))
        if not own_trial.several(model):
            return frozenset()
        try:
            return own_trial.left_idle(trainer.template, model)
        except Exception as error:
            report.line(
                "what ms-swift's template runs for a row of text could not be tried on a small "
                f"copy ({type(error).__name__}: {error}): its source is believed, "
                "and ranks would wait for a tower that it leaves out"
            )
            return frozenset()

    def conflicting_flags(self, trainer: Any, policy: tuple[str, ...]) -> tuple[str, ...]:
        named = (_FLAGS[word] for word in policy if word in _FLAGS)
        return tuple(f"--{f} false" for f in named if getattr(trainer.args, f, None) is False)

    def dry_run_obstacle(self, trainer: Any) -> str:
        if getattr(trainer.template, "sequence_parallel_size", 1) > 1:
            return "sequence parallelism: a forward needs every rank"
        return ""

    @contextmanager
    def around_forward(self, trainer: Any) -> Iterator[None]:
        """With the hook that turns a multimodal batch into embeddings, as ms-swift trains."""
        template = trainer.template
        if not getattr(getattr(trainer, "model_meta", None), "is_multimodal", False):
            yield
            return
        template.register_post_encode_hook([trainer.accelerator.unwrap_model(trainer.model)])
        try:
            yield
        finally:
            template.remove_post_encode_hook()

    def loss(self, model: Any, batch: Mapping[str, Any]) -> Any:
        """The model's own; a loss scale or another loss function plays no part."""
        return dry_run.loss_of(model, {k: v for k, v in batch.items() if k not in _OF_THE_LOSS})


PROFILE = Swift()
