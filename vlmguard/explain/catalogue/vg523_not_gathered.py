"""A sharded parameter is used without being gathered."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_LOADS = re.compile(r"\b(self\.[a-z]\w{1,60}|[a-z]\w{1,60})\.load_state_dict\(")
_RECORD = (
    "in registry",
    "in flight",
    "inflight",
    "to be released",
    "still active in submodules",
    "does not match tensor size",
    "'active_sub_modules'",
)


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in _RECORD):
        return (
            "ZeRO-3 keeps a record of the weights that are gathered, and it no longer held: a "
            "module ran outside the engine's own forward (inside generate, in a reward or a "
            "reference model), in another order than in the step before (a branch that depends on "
            "the data, a mixture of experts), or an exception was caught in the middle of a forward"
        )
    if "ref_model" in facts.trace:
        return (
            "the reference model was loaded under ZeRO-3, which left each rank a slice of it or "
            "nothing, and was not given to DeepSpeed, which alone gathers it again"
        )
    return (
        "ZeRO-3 and FSDP hold a slice, or nothing, of each weight outside its module's forward; "
        "here a weight of shape [0] or of one dimension came into a computation"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if facts.fsdp:
        return (
            *((_ITSELF,) if facts.framework in ("", "accelerate") else ()),
            *((_SHARDED,) if facts.phase == "forward" and "checkpoint" not in facts.trace else ()),
            Do("non_reentrant", "none: reentrant recomputation runs outside FSDP's hooks"),
            Do("use_orig_params", "none"),
            Do("call the wrapped model itself, not a method or module inside it"),
        )
    zero2 = Do("zero2", "more memory: every rank holds all parameters")
    if "ref_model" in facts.trace:
        newer = (_NEWER,) if "trl/trainer/" in facts.trace else ()
        return (*newer, zero2, _REFERENCE)
    if "unwrap_model_for_generation" in facts.trace:
        return (zero2, _NO_GATHER, *_BY_HAND)
    if (found := _LOADS.search(facts.trace)) is not None and "[0]" in facts.message:
        by_hand = Do(
            f"with deepspeed.zero.GatheredParameters(list({found[1]}.parameters()), "
            "modifier_rank=0): round the load_state_dict of {place} (import deepspeed): the file "
            "is sound, this rank's part of the weight is empty",
            "none",
        )
        return (zero2, by_hand)
    return (zero2, *_BY_HAND)


_NEWER = Do(
    "python -m pip install 'trl>=0.7.2,<0.9': it gives the reference model to DeepSpeed as well; "
    "the arguments stay as they are",
    "none, where nothing pins it",
)
_REFERENCE = Do(
    "ref_model = deepspeed.initialize(model=ref_model, config=DS_CONFIG)[0] before training; with "
    "LoRA ref_model=None: the model without its adapter is the reference",
    "none",
)
# TRL's trainers that generate; without the gathering each layer's weights are fetched in turn.
_NO_GATHER = Do("--ds3_gather_for_generation false (TRL)", "much slower generation; no vLLM")


_SHARDED = Do("zero3", "DeepSpeed shards in place of FSDP, which is to be switched off")
_ITSELF = Do(
    "{place}: call the wrapped model itself (model(…)), not a module or method inside it "
    "(model.module.…): FSDP gathers in the wrapped forward alone",
    "none",
)
_BY_HAND = (
    Do(
        "call the engine or the wrapped model itself: a module that is "
        "used from outside its own forward is not gathered"
    ),
    Do(
        "with deepspeed.zero.GatheredParameters(module.parameters()): round code that reads weights"
    ),
    Do(
        "deepspeed.zero.register_external_parameter(module, parameter) "
        "where one module uses another's weight"
    ),
)


FAILURE = Known(
    code="VG523",
    name="explain-not-gathered",
    title="A sharded parameter was used without being gathered",
    zh="使用了尚未聚合（gather）的分片参数",
    why=_why,
    do=_do,
    wrong="Under a single process or DDP these messages mean wrong shapes of the data.",
    signs=(
        Sign("'status': 'NOT_AVAILABLE'", also=("AssertionError",)),
        Sign("'status': 'INFLIGHT'", also=("AssertionError",)),
        Sign("'weight' must be 2-D"),
        Sign("mat2 must be a matrix"),
        Sign("weight should be 2-D"),
        Sign("'mat2' must be a matrix"),
        Sign("mat2 must be 2"),
        Sign("size mismatch, got input", also=("vec",)),
        Sign("The size of tensor a", also=("must match the size of tensor b (0)",)),
        Sign("must match the size of tensor b (0)"),
        Sign("weight should have at least three dimensions"),
        Sign("should be the same as the normalized_shape", also=("[0]",)),
        Sign("tensor of size [0]"),
        Sign("shape '[-1, 0]' is invalid for input of size"),
        Sign("layer kernel must have", also=("dimensions, not 1",), releases="peft"),
        Sign("the shape in current model is torch.Size([0])"),
        Sign("the shape in current model is torch.Size([0])", where="line"),
        Sign("got weight of shape [0]"),
        Sign("invalid for input of size 0"),
        Sign("NOT_AVAILABLE", also=("ZeroParamStatus",)),
        Sign("'ds_numel':"),
        Sign("ZeroParamStatus.AVAILABLE, param.ds_summary()", where="line"),
        Sign("but its data is not allocated yet"),
        Sign("The size of tensor a (0) must match"),
        Sign("Fan in and fan out can not be computed for tensor with fewer"),
        Sign("got input (", also=("vec (",)),
        Sign("already in registry", releases="DeepSpeed"),
        Sign("expected param", also=("inflight",), releases="DeepSpeed"),
        Sign("attempted to add non-inflight parameter", releases="DeepSpeed"),
        Sign("expected to be released", releases="DeepSpeed"),
        Sign("Cannot partition a param in flight", releases="DeepSpeed"),
        Sign(
            "Cannot free a ZeRO-3 parameter while it is still active", releases="DeepSpeed ≥ 0.17"
        ),
        Sign("ds_active_sub_modules", where="trace"),
        Sign("assert not param.ds_active_sub_modules"),
        Sign("does not match tensor size", also=("param id",), releases="DeepSpeed"),
        Sign("GatheredParameters"),
        Sign("pop from an empty deque", releases="DeepSpeed, ZeRO-3's record"),
        Sign("deepspeed/runtime/zero/partitioned_param_coordinator.py", where="raised"),
        Sign("deepspeed/runtime/zero/parameter_offload.py", where="raised"),
        Sign("partition_parameters.py in free_param", where="raised"),
        Sign("partition_parameters.py in _partition", where="raised"),
        Sign("partition_parameters.py in _all_gather", where="raised"),
        Sign("partition_parameters.py in wait", where="raised"),
        Sign("gather_16bit_weights_on_model_save=True", releases="xtuner, DeepSpeed"),
        Sign("partitioned", where="else"),
        Sign("ds_id", where="else"),
    ),
    examples=(Example("RuntimeError: 'weight' must be 2-D", "made by causing it, torch 2.13.0"),),
    evidence="hiyouga/LlamaFactory#4557; row 24.",
)
