"""What adapters say and rules read: frozen, framework-free descriptions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Certainty = Literal["no", "possible", "yes"]
Phase = Literal["train", "eval", "generate"]
Provenance = Literal["observed", "declared", "assumed"]
Wiring = Literal["cut", "detached", "no_grad", "dropped", "idle", "unknown"]
Strategy = Literal[
    "single",
    "ddp",
    "fsdp",
    "fsdp2",
    "zero0",
    "zero1",
    "zero2",
    "zero3",
    "gemini",
    "lowlevelzero",
    "unknown",
]

PHASES: tuple[Phase, ...] = ("train", "eval", "generate")
ZERO: tuple[Strategy, ...] = ("zero1", "zero2", "zero3")
PARTITIONED: tuple[Strategy, ...] = ("zero3", "fsdp", "fsdp2")
"""Each module's weights are gathered as it runs: a rank that leaves a module out leaves a
collective out, whether the module trains or not, and in evaluation as well."""
MEDIA = ("image", "video", "audio")


@dataclass(frozen=True)
class Tower:
    """One part of the model: the vision tower, the aligner, the language model.

    Attributes:
        kind: "vision", "audio", "aligner", "llm", or the framework's own word for anything else.
        paths: dotted module paths in the unwrapped model.
        total: number of parameter tensors (not elements: ZeRO-3 holds no elements before a gather).
        trainable: how many of them require a gradient.
        adapters: how many of the trainable ones belong to an adapter (LoRA and kin).
        checkpointed: whether blocks in it will run under gradient checkpointing.
        input_grads: whether the input of its first checkpointed block requires a gradient;
            None where that cannot be told.
    """

    kind: str
    paths: tuple[str, ...] = ()
    total: int = 0
    trainable: int = 0
    adapters: int = 0
    checkpointed: bool = False
    input_grads: bool | None = None

    @property
    def sees(self) -> bool:
        """Whether it runs only when a batch has something to see or hear."""
        return self.kind in ("vision", "audio", "aligner")


@dataclass(frozen=True)
class Checkpointing:
    """The *effective* gradient checkpointing: what will happen, not what a flag says.

    Attributes:
        on: whether any block is checkpointed.
        use_reentrant: the variant that will run; None where it cannot be told.
        asked: the variant that the user wrote, None for a default.
        decided_by: who decided, in words ("ms-swift's default", "the user's flag").
    """

    on: bool = False
    use_reentrant: bool | None = None
    asked: bool | None = None
    decided_by: str = ""


@dataclass(frozen=True)
class Run:
    """A run as it is about to be wrapped.

    Attributes:
        framework: "ms-swift", "TRL", "LLaMA-Factory", "FlagEmbedding", "colossalai",
            "transformers" (a plain Trainer), "accelerate" (a loop), "torch" (a loop without
            accelerate, under DDP, FSDP2 or DeepSpeed).
        releases: distribution name → version string, of what is imported.
        phase: "train"; "eval" for an evaluation or prediction without a training.
        strategy: how the model will be distributed; one of the words of `Strategy`.
        world: number of processes.
        rank: this process's number, from 0.
        tuning: "full", "lora", … in the framework's own word.
        checkpointing: the effective gradient checkpointing.
        towers: the parts of the model; () where they are not known.
        forwards: how many forward passes with gradients precede one backward; 2 in a loss that
            runs the model twice, such as DPO's.
        generates: whether the trainer generates between its training steps (GRPO and kin, an
            evaluation) in a framework where that was seen to go wrong.
        samples: whether the model itself writes what it trains on (GRPO and kin), in a framework
            whose batches are judged row by row.
        repeats: whether a checkpointed trainable module runs more than once in one forward.
        shared: whether one trainable weight is used in two checkpointed blocks.
        frozen: whether any parameter is frozen.
        rows: kinds of rows that any rank may meet while it trains: "text", "image", "video",
            "audio", "image+video" for a row that holds both; () if unknown.
        eval_rows: as ``rows``, in evaluation between training steps.
        may_be_unused: whether a batch can leave a tower unused: "no", "possible", or "yes" (the
            data are known to hold rows with and without media).
        unused_in_training: as ``may_be_unused``, in training steps alone; None if it is the same.
        may_be_alike: whether all ranks may have rows of the same kind in each step of training, by
            the order of the rows or a sampler of the user's own.
        never_used: trainable parameters that no kind of row uses, by name.
        cut_off: kinds of towers that train and run, and of which no parameter gets a gradient.
            Their parameters are not in ``never_used``.
        text_skips: trainable parameters of the language model that a row without media does not
            use.
        dropped: trainable parameters that get a gradient from a row with media without
            checkpointing, and none with the checkpointing that will run.
        per_image: modules of image towers that run more often the more images a batch has.
        media_apart: whether some ranks will have both an image and a video in a step in which
            others have only one of them, and a tower runs once for each.
        experts: the name of a module with experts that ZeRO-3 gathers one by one; "" if there is
            none.
        can_pad: whether a blank input can run the towers in a forward that has none.
        pads: whether such a blank input will be run.
        cannot_pad: why there can be no blank input.
        overscaled: how many times too large each step's gradient will be; 1 if it is right. The
            trainer passes the number of tokens, and the model's loss does not divide by it.
        router_loss: whether the loss has a part that balances experts, computed from router logits
            that transformers records while blocks run.
        find_unused: DDP's effective ``find_unused_parameters``; None without DDP.
        static_graph: DDP's effective ``static_graph``; None without DDP.
        compiled: whether a part of the model is compiled by torch.compile, or will be.
        unfrozen: how many parameter tensors train though the freeze policy names them; 0 if the
            policy is obeyed.
        unfrozen_example: one of their names.
        freeze: the freeze policy, as settings state it.
        conflicting_flags: framework flags that ask for the opposite of the freeze policy.
        missing_seams: seams of the adapter that this release does not have.
        lost_seams: seams whose function somebody replaced after we wrapped it.
        accumulation: micro-batches before one optimizer step.
        clipping: whether DeepSpeed's config has the key ``gradient_clipping``; "" elsewhere.
        empty_group: whether the optimizer gets a group without parameters under DeepSpeed, which
            drops it when the Trainer's schedule has counted it; "possible" where that is not known.
        overlap_comm: whether DeepSpeed's config has it on; ZeRO-1 then reduces as ZeRO-2 does.
        provenance: fact → how it is known; a fact that is not named was read from the run itself.
    """

    framework: str
    releases: Mapping[str, str] = field(default_factory=dict)
    strategy: Strategy = "single"
    world: int = 1
    rank: int = 0
    tuning: str = "full"
    checkpointing: Checkpointing = Checkpointing()
    towers: tuple[Tower, ...] = ()
    forwards: int = 1
    repeats: Certainty = "no"
    shared: bool = False
    frozen: bool = False
    may_be_unused: Certainty = "no"
    may_be_alike: bool = False
    can_pad: bool = False
    pads: bool = False
    find_unused: bool | None = None
    static_graph: bool | None = None
    compiled: bool = False
    accumulation: int = 1
    clipping: Literal["", "written", "missing"] = ""
    freeze: tuple[str, ...] = ()
    unfrozen: int = 0
    unfrozen_example: str = ""
    conflicting_flags: tuple[str, ...] = ()
    missing_seams: tuple[str, ...] = ()
    lost_seams: tuple[str, ...] = ()
    phase: Phase = "train"
    generates: bool = False
    samples: bool = False
    rows: tuple[str, ...] = ()
    eval_rows: tuple[str, ...] = ()
    unused_in_training: Certainty | None = None
    never_used: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    text_skips: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    per_image: tuple[str, ...] = ()
    media_apart: bool = False
    experts: str = ""
    cannot_pad: str = ""
    overscaled: int = 1
    router_loss: bool = False
    overlap_comm: bool = False
    empty_group: Certainty = "no"
    provenance: Mapping[str, Provenance] = field(default_factory=dict)

    def tower(self, kind: str) -> Tower | None:
        """The tower of that kind, or None."""
        return next((tower for tower in self.towers if tower.kind == kind), None)

    @property
    def reduces_early(self) -> bool:
        """Whether DeepSpeed reduces each gradient as it comes: a second one is then too late."""
        return self.strategy == "zero2" or (self.strategy == "zero1" and self.overlap_comm)

    @property
    def needs_all_gradients(self) -> bool:
        """Whether a step that leaves a trainable parameter without a gradient ends the run: DDP
        fails at the next one, Gemini takes its weights for a gradient."""
        if self.strategy == "gemini":
            return True
        return self.strategy == "ddp" and self.find_unused is False and not self.static_graph

    @property
    def image_towers(self) -> tuple[Tower, ...]:
        """The towers that run only when a batch has something to see or hear."""
        return tuple(tower for tower in self.towers if tower.sees and tower.total)

    @property
    def trained_towers(self) -> tuple[Tower, ...]:
        """Those of them that train."""
        return tuple(tower for tower in self.image_towers if tower.trainable)

    @property
    def medium(self) -> str:
        """What its towers see or hear."""
        kinds = {tower.kind for tower in self.image_towers} - {"aligner"}
        return {("audio",): "a sound", ("audio", "vision"): "an image or sound"}.get(
            tuple(sorted(kinds)), "an image"
        )

    @property
    def skips_in_training(self) -> Certainty:
        """Whether a training step can leave a tower unused; as in any forward where not told."""
        return self.may_be_unused if self.unused_in_training is None else self.unused_in_training

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Facts that could only be assumed: no rule stops or changes the run on them."""
        return tuple(sorted(fact for fact, how in self.provenance.items() if how == "assumed"))

    def known(self, fact: str) -> bool:
        """Whether a rule may stop or change a run on this fact: it was not merely assumed."""
        return self.provenance.get(fact) != "assumed"


@dataclass(frozen=True)
class Sample:
    """One row of a batch, as encoded on the CPU, before collation.

    Attributes:
        placeholders: image placeholder tokens among its input ids, None if unknown.
        expected: tokens that its visual features will fill, None if unknown.
        images: images in it, by its grid or its pixel tensor; None if unknown.
        keys: names of the visual entries that are present.
        missing: names of entries that the present ones cannot go without.
        prefix: "" or the part of a pair it belongs to ("chosen_", "rejected_", …).
        replaced: why the framework put another sample in place of the one asked for, or "".
        name: what to call it: "row 17" of the data, or its place in the batch.
    """

    placeholders: int | None = None
    expected: int | None = None
    images: int | None = None
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    prefix: str = ""
    replaced: str = ""
    name: str = ""

    def called(self, number: int) -> str:
        """Its name in a message; ``number`` is its place in the batch."""
        name = self.name or f"sample {number} of this batch"
        return f"{name} ({self.prefix.rstrip('_')})" if self.prefix else name


@dataclass(frozen=True)
class Batch:
    """One micro-batch of this rank, before forward.

    Attributes:
        samples: its rows, where the adapter sees them one by one (ms-swift, ColossalAI); else ().
        kinds: sorted kinds of input in it: "text", "image", "video", "audio"; () if unknown.
        phase: what it is for.
        shapes: of its tensors, by key ("queries.input_ids" for one in an inner mapping); {} where
            it is not collated yet.
    """

    samples: tuple[Sample, ...] = ()
    kinds: tuple[str, ...] = ()
    phase: Phase = "train"
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gradients:
    """Which parameters of an optimizer got a gradient since its last step. No tensor is read.

    Attributes:
        unreached: tower kind → names of trainable parameters that got no gradient, in two or more
            steps or in the dry step (``tried``).
        trainable: tower kind → number of trainable parameters, of towers that ran.
        wiring: tower kind → why none of a tower's parameters gets a gradient, if several whole
            steps say the same. "cut": it was called with gradients switched on, and none came to
            it; in a step of the run: its code loses them in every step. "detached": the same, but
            perhaps not in every step. "no_grad": it ran with gradients switched off. "dropped": its
            output needed one, and none came.
        steps: how many steps said so.
        tried: whether this was seen in the dry step that the user asked for, not in a step of the
            run.
        by_design: names that this model family never trains.
        stale: towers that no gradient reached now and some gradient reached in an earlier step.
    """

    unreached: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    trainable: Mapping[str, int] = field(default_factory=dict)
    wiring: Mapping[str, Wiring] = field(default_factory=dict)
    steps: int = 1
    tried: bool = False
    by_design: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception that leaves training: its type's name, its message, and itself."""

    type: str
    message: str
    error: BaseException | None = None


def run_as_json(run: Run) -> str:
    """``run`` as JSON: how it reaches dataloader workers, by environment."""
    return json.dumps(dataclasses.asdict(run))


def run_from_json(text: str) -> Run:
    """The inverse of `run_as_json`."""
    data = json.loads(text)
    towers = tuple(Tower(**{**t, "paths": tuple(t["paths"])}) for t in data.pop("towers"))
    checkpointing = Checkpointing(**data.pop("checkpointing"))
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Run(towers=towers, checkpointing=checkpointing, **{**data, **lists})
