"""What is special about a framework whose trainers are `transformers.Trainer`s.

A framework of its own subclasses `Profile` and says what differs; all else is plain. The Trainer
adapter asks the profile that owns the trainer (`profiles.of`), and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from vlmguard.core import settings
from vlmguard.core.facts import Certainty, Checkpointing, Strategy
from vlmguard.core.findings import Advice
from vlmguard.runtime.seams import Seam
from vlmguard_torch.layout import model_checkpointing, towers
from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.media import families
from vlmguard_transformers import checkpointing
from vlmguard_transformers.data import columns, peek

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction

Paths = Mapping[str, tuple[str, ...]]

WORDS = {"vit": "vision", "visual": "vision", "projector": "aligner", "language": "llm"}
"""Other words of the field for towers."""
LOWER = ("false", "true")
COMMAND_LINE: Mapping[str, str] = {
    "SetVariant": "--gradient_checkpointing_kwargs '{{\"use_reentrant\": {use_reentrant}}}'",
    "FindUnused": "--ddp_find_unused_parameters {value}",
    "StaticGraph": "--ddp_static_graph {value}",
    "NoCheckpointing": "--gradient_checkpointing false",
    "FreezeTower": "--vlmguard-freeze {tower}",
}
"""`flags` of every framework whose command line is `HfArgumentParser`'s over TrainingArguments."""
MODELS = ("ref_model", "reward_model", "value_model", "teacher_model")
"""Attributes of a trainer that hold further models of the run, one or a list."""


class Profile:
    """The plain profile: any `transformers.Trainer`.

    Attributes:
        name: the framework, in findings and the first line.
        distributions: whose releases are facts of the run, the framework's own first.
        owns: its trainers, as "module:Class" patterns; of all profiles that match a trainer, the
            one that matches the most derived class acts.
        flags: advice's class name → how this framework spells it, with the advice's fields in
            braces: {"FindUnused": "--ddp_find_unused_parameters {value}"}.
        truth: how its flags write False and True.
        words: the framework's words for towers in a freeze policy → ours.
        speaks: whether runs in which nothing is found are greeted as well.
        seams: what its adapter wraps beside the Trainer's own functions.
        hears_batches: whether its adapter judges each batch itself, where it is made of rows.
    """

    name = "transformers"
    distributions: tuple[str, ...] = ("transformers",)
    owns: tuple[str, ...] = ("transformers.trainer:Trainer",)
    flags: Mapping[str, str] = {
        "SetVariant": 'gradient_checkpointing_kwargs={{"use_reentrant": {use_reentrant}}}',
        "FindUnused": "ddp_find_unused_parameters={value}",
        "StaticGraph": "ddp_static_graph={value}",
        "NoCheckpointing": "gradient_checkpointing=False",
        "MeanLoss": "model.accepts_loss_kwargs = False, before the Trainer is made",
    }
    truth: tuple[str, str] = ("False", "True")
    words: Mapping[str, str] = WORDS
    speaks = False
    seams: tuple[Seam, ...] = ()
    hears_batches = False

    def spell(self, advice: Advice) -> str:
        """``advice`` as a flag of this framework; "" where it has none."""
        form = self.flags.get(type(advice).__name__, "")
        values = {
            name: self.truth[value] if isinstance(value, bool) else value
            for name, value in vars(advice).items()
        }
        return form.format(**values) if form else ""

    def policy(self) -> tuple[str, ...]:
        """The freeze policy in our words."""
        return tuple(self.words.get(word.lower(), word) for word in settings.get().freeze)

    # The model

    def model(self, trainer: Any) -> Any:
        """What has ``named_parameters`` under the names that the user knows."""
        return trainer.model

    def towers(self, trainer: Any) -> Paths:
        """Tower → module paths; {} for a text model."""
        named = towers.by_name(trainer.model)
        if named:
            return named
        from vlmguard_torch.layout import by_structure

        return by_structure.unnamed(trainer.model)

    def parts(self, trainer: Any) -> Paths:
        """The words that a freeze policy may use besides names."""
        return self.towers(trainer)

    def owners(self, trainer: Any) -> tuple[Any, ...]:
        """What leads to the trainer's run beside it and its model."""
        return ()

    def models(self, trainer: Any) -> list[Any]:
        """All models of the run that a strategy may partition, the trained one first."""
        found = [trainer.model]
        for name in MODELS:
            held = getattr(trainer, name, None)
            found += held if isinstance(held, (list, tuple)) else [held]
        unique = {id(model): model for model in found if hasattr(model, "named_modules")}
        return list(unique.values())

    def tuning(self, trainer: Any) -> str:
        """ "full", or the name of what adapts."""
        return "full" if towers.without_adapters(trainer.model) is trainer.model else "lora"

    def never_used(self, trainer: Any, parameters: Parameters) -> tuple[str, ...]:
        """Trainable parameters, by plain name, that no forward of this model family uses, as far as
        is declared."""
        config = getattr(trainer.model, "config", None)
        family = families.of(config)
        parts = family.untrained(config) if family else ()
        named = parameters.named_parameters() if parts else ()
        names = (towers.plain(name) for name, parameter in named if parameter.requires_grad)
        return tuple(name for name in names if any(part in name for part in parts))

    # What will happen

    def checkpointing(self, trainer: Any) -> Checkpointing:
        """The effective checkpointing: the arguments', or what was switched on on the model."""
        if not checkpointing.flagged(trainer.args):
            return model_checkpointing.of_model(trainer.model)
        asked = checkpointing.asked(trainer.args)
        effective = checkpointing.effective(trainer.args, towers.without_adapters(trainer.model))
        decided = "transformers' default" if asked is None else "the user's flag"
        return Checkpointing(True, effective, asked, decided)

    def checkpointed(self, trainer: Any, kind: str, paths: tuple[str, ...] = ()) -> bool:
        """Whether blocks of a tower, which lies at ``paths``, will run under checkpointing."""
        flagged = checkpointing.flagged(trainer.args)
        return flagged or model_checkpointing.checkpointed(trainer.model, paths)

    def set_variant(self, trainer: Any, use_reentrant: bool, transaction: Transaction) -> None:
        """Have the blocks checkpoint in this variant."""
        if checkpointing.flagged(trainer.args):
            before = self.checkpointing(trainer).use_reentrant
            checkpointing.set_variant(trainer.args, before, use_reentrant, transaction)
        if model_checkpointing.of_model(trainer.model).on:
            model_checkpointing.set_on_model(trainer.model, use_reentrant, transaction)

    def input_grads(self, trainer: Any, kind: str) -> bool | None:
        """Whether the input of a tower's first checkpointed block needs a gradient."""
        return None

    def forwards(self, trainer: Any) -> int:
        """Forward passes with a gradient before one backward."""
        return 1

    def generates(self, trainer: Any) -> bool:
        """Whether it generates between training steps and was seen to train wrongly for it
        (VG112). TRL's own GRPO was seen to train rightly, and so was transformers' Trainer with an
        evaluation that generates, as its Seq2SeqTrainer does it and with TRL's unwrapping."""
        return False

    def samples(self, trainer: Any) -> bool:
        """Whether the model itself writes what it then trains on, in a framework whose batches are
        judged row by row."""
        return False

    def repeats(self, trainer: Any) -> Certainty | None:
        """Whether a tower runs more than once in a forward; None to have it observed."""
        return None

    # The rows

    def rows(self, trainer: Any, dataset: Any) -> frozenset[str] | None:
        """Kinds of rows that a data set holds; None if that cannot be told."""
        if columns.columns(dataset):
            return columns.kinds(dataset)
        return peek.kinds(trainer, dataset)

    def pads_itself(self, trainer: Any, strategy: Strategy) -> Certainty:
        """Whether the framework itself runs the towers on something where a batch has nothing."""
        return "no"

    def left_idle(self, trainer: Any) -> frozenset[str]:
        """Where it does: the kinds of towers ("vision", "audio") that it leaves out all the same.
        Asked once a run."""
        return frozenset()

    def conflicting_flags(self, trainer: Any, policy: tuple[str, ...]) -> tuple[str, ...]:
        """Flags of the framework, given by the user, that ask for what the policy forbids."""
        return ()

    # The dry run

    def dry_run_obstacle(self, trainer: Any) -> str:
        """Why a forward cannot be tried by one rank alone; "" if it can."""
        return ""

    def around_forward(self, trainer: Any) -> AbstractContextManager[Any]:
        """What the framework's own training sets up around a forward."""
        return nullcontext()

    def loss(self, model: Any, batch: Mapping[str, Any]) -> Any:
        """(model, batch) → scalar tensor."""
        from vlmguard_torch.watch import dry_run

        return dry_run.loss_of(model, batch)
