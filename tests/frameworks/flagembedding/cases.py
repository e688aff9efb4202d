"""The cases that must go from broken to right, and the healthy ones, as data."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINTS = ("--gradient_checkpointing", "True")
REENTRANT = (*CHECKPOINTS, "--gradient_checkpointing_kwargs", '{"use_reentrant": true}')
RENAMED = ("--activation_checkpointing", "True",
           "--activation_checkpointing_kwargs", '{"use_reentrant": true}')  # fmt: skip
NON_REENTRANT = (*CHECKPOINTS, "--gradient_checkpointing_kwargs", '{"use_reentrant": false}')
FULL = ("--use_lora", "False")
UNUSED_NOT = ("--ddp_find_unused_parameters", "False")
ONCE = "Expected to mark a variable ready only once"
REDUCED = "has already been reduced"
BARE_ASSERTION = "assert len(set(p.ds_id for p in params_in_bucket)) == len(params_in_bucket)"
NEW, RENAMING, OLD = "flagembedding-5.19", "flagembedding-5.23", "flagembedding-1.3.5"


def zero(config: str) -> tuple[str, ...]:
    return ("--deepspeed", f"{{built}}/{config}.json")


@dataclass(frozen=True)
class Case:
    """A user's command that goes wrong; its reference does without checkpoints and `spread`.

    Attributes:
        broken: the message of the crash with the guard off, or "wrong" (exit 0).
        fixes: the code that the report must name as fixed.
        spread: how the model is spread over the ranks, where that is not plain DDP.
        over: the overlay with other releases.
    """

    name: str
    module: str
    broken: str
    fixes: str
    flags: tuple[str, ...] = ()
    spread: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = CHECKPOINTS
    over: str | None = None
    ranks: int = 2


CASES = [
    # 1: rerankers under DDP, default flags on transformers 4.51.3
    Case("reranker-lora", "reranker_decoder", ONCE, "VG101"),
    Case("reranker-full", "reranker_decoder", ONCE, "VG101", FULL),
    Case("reranker-one-rank", "reranker_decoder", ONCE, "VG101", ranks=1),
    Case("layerwise", "reranker_layerwise", ONCE, "VG101"),
    Case("layerwise-full", "reranker_layerwise", ONCE, "VG101", FULL),
    Case("reranker-encoder", "reranker_encoder", ONCE, "VG101"),
    # 2: embedders, default flags, and with an explicit variant on transformers 5.19
    Case("embedder-lora", "embedder_decoder", ONCE, "VG101"),
    Case("embedder-encoder", "embedder_encoder", ONCE, "VG101"),
    Case("embedder-full", "embedder_decoder", ONCE, "VG101", FULL),
    Case("embedder-one-rank", "embedder_encoder", ONCE, "VG101", ranks=1),
    Case("icl", "embedder_icl", ONCE, "VG101"),
    Case("m3-old", "embedder_m3", ONCE, "VG101", over=OLD),
    Case("embedder-lora-5.19", "embedder_decoder", ONCE, "VG101",
         checkpoints=REENTRANT, over=NEW),
    Case("embedder-encoder-5.19", "embedder_encoder", ONCE, "VG101",
         checkpoints=REENTRANT, over=NEW),
    # 3: embedders under ZeRO (LoRA + DeepSpeed + transformers < 5 fails in the scheduler's step)
    Case("embedder-full-zero2", "embedder_decoder", REDUCED, "VG103", FULL, zero("zero2")),
    Case("embedder-encoder-zero2", "embedder_encoder", REDUCED, "VG103", (), zero("zero2")),
    Case("embedder-full-zero3", "embedder_decoder", BARE_ASSERTION, "VG103", FULL,
         zero("zero3")),
    Case("embedder-encoder-zero3", "embedder_encoder", BARE_ASSERTION, "VG103",
         (), zero("zero3")),
    Case("embedder-full-zero3-silent", "embedder_decoder", "wrong", "VG103",
         FULL, zero("zero3_small_bucket")),
    Case("embedder-encoder-zero3-silent", "embedder_encoder", "wrong", "VG103",
         (), zero("zero3_small_bucket")),
    Case("embedder-lora-zero3-silent", "embedder_decoder", "wrong", "VG103",
         (), zero("zero3_small_bucket"), REENTRANT, NEW),
    # 4: the community's way round the crash; an encoder has a pooler, which embedders never use
    Case("embedder-lora-drift", "embedder_decoder", "wrong", "VG107", (), UNUSED_NOT),
    Case("embedder-encoder-unused-not", "embedder_encoder", ONCE, "VG107", (), UNUSED_NOT),
    # 5: the fields that transformers 5.23 renames, by either name
    Case("embedder-lora-5.23", "embedder_decoder", ONCE, "VG101",
         checkpoints=REENTRANT, over=RENAMING),
    Case("embedder-encoder-5.23", "embedder_encoder", ONCE, "VG101",
         checkpoints=RENAMED, over=RENAMING),
]  # fmt: skip


@dataclass(frozen=True)
class Healthy:
    """A command that works without the guard, and must come out the same to the last bit."""

    name: str
    module: str
    flags: tuple[str, ...] = ()
    over: str | None = None


ONE_FORWARD = Healthy("reranker-unused-not", "reranker_decoder", (*CHECKPOINTS, *UNUSED_NOT))
"""Reentrant, and right: the guard changes the variant here, and no bit may change with it."""

HEALTHY = [
    Healthy("embedder", "embedder_decoder"),
    ONE_FORWARD,
    Healthy("reranker-zero3", "reranker_encoder", (*CHECKPOINTS, *zero("zero3"))),
    Healthy("embedder-zero1", "embedder_encoder", (*CHECKPOINTS, *zero("zero1"))),
    Healthy("embedder-zero3", "embedder_encoder", (*NON_REENTRANT, *zero("zero3"))),
    Healthy("m3-5.23", "embedder_m3", CHECKPOINTS, RENAMING),
]
