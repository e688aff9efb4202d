"""The cases that must go from broken to right, and the healthy ones, as data."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINTS = ["--gradient_checkpointing", "True"]
REENTRANT = [*CHECKPOINTS, "--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
RENAMED = ["--activation_checkpointing", "True",
           "--activation_checkpointing_kwargs", '{"use_reentrant": true}']  # fmt: skip
NON_REENTRANT = [*CHECKPOINTS, "--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
FULL = ["--use_lora", "False"]
UNUSED_NOT = ["--ddp_find_unused_parameters", "False"]
ONCE = "Expected to mark a variable ready only once"
REDUCED = "has already been reduced"
BARE_ASSERTION = "assert len(set(p.ds_id for p in params_in_bucket)) == len(params_in_bucket)"
NEW, RENAMING, OLD = "flagembedding-5.19", "flagembedding-5.23", "flagembedding-1.3.5"


def zero(config: str) -> list[str]:
    return ["--deepspeed", f"{{built}}/{config}.json"]


@dataclass(frozen=True)
class Case:
    """A user's command that checkpoints; its reference is the same without `checkpoints`.

    Attributes:
        broken: the message of the crash with the guard off, or "wrong" (exit 0).
        fixes: codes that the report must name as fixed.
        over: the overlay with other releases.
    """

    name: str
    module: str
    broken: str
    fixes: set[str]
    flags: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = tuple(CHECKPOINTS)
    over: str | None = None
    ranks: int = 2


def _case(name, module, broken, code, *flags, checkpoints=CHECKPOINTS, over=None, ranks=2):
    return Case(name, module, broken, {code}, flags, tuple(checkpoints), over, ranks)


CASES = [
    # 1: rerankers under DDP, default flags on transformers 4.51.3
    _case("reranker-lora", "reranker_decoder", ONCE, "VG101"),
    _case("reranker-full", "reranker_decoder", ONCE, "VG101", *FULL),
    _case("reranker-one-rank", "reranker_decoder", ONCE, "VG101", ranks=1),
    _case("layerwise", "reranker_layerwise", ONCE, "VG101"),
    _case("reranker-encoder", "reranker_encoder", ONCE, "VG101"),
    # 2: embedders, default flags, and with an explicit variant on transformers 5.19
    _case("embedder-lora", "embedder_decoder", ONCE, "VG101"),
    _case("embedder-full", "embedder_decoder", ONCE, "VG101", *FULL),
    _case("embedder-encoder", "embedder_encoder", ONCE, "VG101"),
    _case("icl", "embedder_icl", ONCE, "VG101"),
    _case("m3-old", "embedder_m3", ONCE, "VG101", over=OLD),
    _case("embedder-lora-5.19", "embedder_decoder", ONCE, "VG101",
          checkpoints=REENTRANT, over=NEW),
    _case("embedder-encoder-5.19", "embedder_encoder", ONCE, "VG101",
          checkpoints=REENTRANT, over=NEW),
    _case("m3-5.19", "embedder_m3", ONCE, "VG101", checkpoints=REENTRANT, over=NEW),
    # 3: embedders under ZeRO (LoRA + DeepSpeed + transformers < 5 fails in the scheduler's step)
    _case("embedder-full-zero2", "embedder_decoder", REDUCED, "VG103", *FULL, *zero("zero2")),
    _case("embedder-encoder-zero2", "embedder_encoder", REDUCED, "VG103", *zero("zero2")),
    _case("embedder-full-zero3", "embedder_decoder", BARE_ASSERTION, "VG103",
          *FULL, *zero("zero3")),
    _case("embedder-encoder-zero3", "embedder_encoder", BARE_ASSERTION, "VG103", *zero("zero3")),
    _case("embedder-full-zero3-silent", "embedder_decoder", "wrong", "VG103",
          *FULL, *zero("zero3_small_bucket")),
    _case("embedder-encoder-zero3-silent", "embedder_encoder", "wrong", "VG103",
          *zero("zero3_small_bucket")),
    _case("embedder-lora-zero3-silent", "embedder_decoder", "wrong", "VG103",
          *zero("zero3_small_bucket"), checkpoints=REENTRANT, over=NEW),
    # 4: the community's way round the crash
    _case("embedder-lora-drift", "embedder_decoder", "wrong", "VG107", *UNUSED_NOT),
    # 5: the fields that transformers 5.23 renames, by either name
    _case("embedder-lora-5.23", "embedder_decoder", ONCE, "VG101",
          checkpoints=REENTRANT, over=RENAMING),
    _case("embedder-encoder-5.23", "embedder_encoder", ONCE, "VG101",
          checkpoints=RENAMED, over=RENAMING),
    _case("reranker-lora-5.23", "reranker_decoder", ONCE, "VG101",
          checkpoints=RENAMED, over=RENAMING),
]  # fmt: skip


@dataclass(frozen=True)
class Healthy:
    """A command that works without the guard, and must come out the same to the last bit."""

    name: str
    module: str
    flags: tuple[str, ...] = ()
    over: str | None = None


HEALTHY = [
    Healthy("reranker", "reranker_decoder"),
    Healthy("reranker-checkpoints", "reranker_decoder", tuple(NON_REENTRANT)),
    Healthy("reranker-zero2", "reranker_encoder", (*CHECKPOINTS, *zero("zero2"))),
    Healthy("reranker-zero3", "reranker_encoder", (*CHECKPOINTS, *zero("zero3"))),
    Healthy("reranker-unused-not", "reranker_decoder", (*CHECKPOINTS, *UNUSED_NOT)),
    Healthy("layerwise", "reranker_layerwise"),
    Healthy("embedder", "embedder_decoder"),
    Healthy("embedder-checkpoints", "embedder_decoder", tuple(NON_REENTRANT)),
    Healthy("embedder-zero1", "embedder_encoder", (*CHECKPOINTS, *zero("zero1"))),
    Healthy("embedder-zero3", "embedder_encoder", (*NON_REENTRANT, *zero("zero3"))),
    Healthy("icl", "embedder_icl"),
    Healthy("m3-5.23", "embedder_m3", tuple(CHECKPOINTS), RENAMING),
    Healthy("embedder-5.23", "embedder_encoder", tuple(CHECKPOINTS), RENAMING),
]
