"""Out of GPU memory: who, in which phase, and what to change so that the global batch stays."""

from __future__ import annotations

from vlmguard.explain import limits, memory
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_PHASE = {
    "load": "while the model was loaded",
    "forward": "in forward",
    "backward": "in backward",
    "step": "in the optimizer's step",
    "evaluation": "in evaluation",
    "generation": "in generation",
    "save": "while saving",
    "data": "while a batch was prepared",
}


# What vLLM says of its own part of the card.
_CACHE = ("cache blocks", "KV cache", "desired GPU memory utilization")


def _one_row(facts: Facts, told: memory.Memory) -> bool:
    """Whether one tensor of a row or an image is what did not fit, whatever else is sharded."""
    weights = any(words in facts.trace for words in ("flatten", "in __init__", "in _apply"))
    return told.huge and facts.phase in ("", "forward", "backward") and not weights


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in _CACHE):
        return (
            "vLLM takes its share of the card before anything else, and what is left in it after "
            "the weights (or on the card, for that share) does not hold the cache of one long row"
        )
    told = memory.read(facts.message)
    parts = [f"the GPU's memory ran out {_PHASE.get(facts.phase, '')}".rstrip()]
    if told.asked is not None:
        parts.append(
            f"{memory.size(told.asked)} were asked for, "
            f"{memory.size(told.free)} of {memory.size(told.total)} free"
        )
    if _one_row(facts, told):
        parts.append(
            "this one request is more than half of the card: one tensor of one very long row or "
            "very large image (attention, logits), which no sharding makes smaller"
        )
    if told.fragmented or told.scattered:
        parts.append(
            f"fragmentation: {memory.size(told.idle)} are held by PyTorch "
            f"and unused, in pieces too small"
        )
    if told.other is not None and told.other > 1:
        parts.append(f"other processes hold {memory.size(told.other)} of this card")
    if facts.phase == "step" and (facts.steps is None or facts.steps[0] <= 1):
        parts.append("the first step of the optimizer makes its states: it is they that do not fit")
    return "; ".join(parts)


def _batch(facts: Facts) -> tuple[Do, ...]:
    """A smaller micro-batch with more accumulation: the same global batch."""
    smaller = memory.smaller(facts.micro, facts.accumulation)
    if smaller is None and facts.micro == 1:
        return ()
    loss = ""
    if facts.framework == "FlagEmbedding":
        loss = "; an embedder also sees fewer in-batch negatives (a reranker has none)"
    if smaller is None:
        return (Do("halve", f"slower steps{loss}"),)
    micro, accumulation = smaller
    kept = micro * accumulation
    if facts.accumulation is None:  # nobody's default is known for sure: the user's own counts
        cost = f"slower; the global batch stays the same{loss}"
        twice = f"{accumulation} ({accumulation} × yours, if you set one)"
        return (Do("batch", cost, (("micro", str(micro)), ("accumulation", twice))),)
    return (
        Do(
            "batch",
            f"slower; {facts.micro} × {facts.accumulation} = {micro} × "
            f"{accumulation} = {kept} rows per rank and step, so the global "
            f"batch stays the same{loss}",
            (("micro", str(micro)), ("accumulation", str(accumulation))),
        ),
    )


def _deepspeed(facts: Facts) -> bool:
    told = facts.zero is not None or facts.said.get("launcher") == "deepspeed"
    return told or "deepspeed" in facts.said or "deepspeed" in facts.releases


def _shard(facts: Facts) -> tuple[Do, ...]:
    """DeepSpeed's stages where it is there or the framework brings it; else torch's own."""
    own = facts.framework == "" and not _deepspeed(facts)
    if facts.world == 1 or (own and facts.world is None and not facts.strategy):
        small = Do("small_optimizer", "needs bitsandbytes; states of 8 bits")
        slow = Do("offload", "slow: optimizer states on the CPU")
        return (small, slow) if _deepspeed(facts) else (small,)
    if own:
        return () if facts.fsdp else (Do("fsdp", "each rank holds a part, gathered by layer"),)
    if "lora" in facts.tuning.lower() and facts.zero in (0, 1, 2):  # the weights are what is large
        return (Do("zero3", "slower; shards the frozen weights, too"),)
    if facts.zero == 3:
        return (Do("offload", "slower: optimizer states on the CPU"),)
    if facts.zero == 2 or (facts.zero is None and "deepspeed" in facts.said):
        return (Do("zero3", "slower: parameters are gathered for each layer"),)
    return (
        Do("zero2", "none for the result; shards optimizer states and gradients"),
        Do("zero3", "slower; shards the parameters too"),
    )


_ENGINE = (
    Do("short_engine", "longer rows are refused", when=("max seq len", "max_model_len")),
    Do("more_engine", "less room for the training on the same card", unless=("desired GPU",)),
    Do("less_engine", "a smaller cache", when=("desired GPU",)),
    Do("short_engine", "longer rows are refused", unless=("max seq len", "max_model_len")),
    Do("nvidia-smi: end what else runs on this card, or take another one"),
)


# Frames whose tensors have a number for each word of the vocabulary.
_VOCABULARY = ("log_softmax", "cross_entropy", "logps", "in ForCausalLMLoss", "logits", "lm_head")
# Whose trainers evaluate without gradients; a loop of one's own may lack that.
_WITHOUT_GRADIENTS = ("ms-swift", "LLaMA-Factory", "TRL", "axolotl", "FlagEmbedding")
_NO_GRAD = Do(
    "with torch.no_grad(): round {place}, if it is not there: else each batch keeps what a "
    "backward would need",
    "none",
)
_SEGMENTS = Do("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in front of the command", "none")
# Frames of an evaluation that hold or gather logits.
_LOGITS = (
    "in pad_across_processes",
    "in preprocess_logits_for_metrics",
    "in gather_for_metrics",
    "in gather_function",
    "in nested_concat",
    "in _gather",
    "in to_cpu_and_numpy",
)


def _images(facts: Facts) -> Do:
    """Smaller images, or fewer tiles for a family that cuts them into tiles."""
    if "internvl" in facts.model.lower():
        return Do("fewer_tiles", "less detail, shorter rows")
    return Do("max_pixels", "smaller images: less detail, shorter rows", limits.fewer_pixels(facts))


_OTHERS = (
    Do(
        "ps -o pid,user,etime,args -p {pid}: it holds this card too: end it, or take another card: "
        "CUDA_VISIBLE_DEVICES=1 in front of the command",
        kind="others",
    ),
    Do(
        "nvidia-smi: end what else runs on this card, or take another one: CUDA_VISIBLE_DEVICES=1 "
        "in front of the command",
        kind="others",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    if any(words in facts.message for words in _CACHE):
        return _ENGINE
    told = memory.read(facts.message)
    first: tuple[Do, ...] = ()
    if "in replica" in facts.message:
        first += (Do("trainer_group", "none: DataParallel keeps everything on the first card"),)
    if told.other is not None and told.other > 1:
        first += _OTHERS
    if told.fragmented and facts.phase != "evaluation":
        first += (_SEGMENTS,)
    pixels = _images(facts)
    length = Do(
        "max_length", "longer rows are dropped, or their text is cut", limits.shorter(facts)
    )
    frozen = Do("freeze_tower", "the tower no longer learns")
    lora = Do("lora", "another kind of tuning: fewer weights learn")
    if facts.phase == "load":
        half = Do("load_half", "none on cards from Ampere on")
        slices = () if facts.zero == 3 else (Do("zero3", "each rank loads a part"),)
        return (*first, half, Do("four_bits", "adapters train alone: QLoRA"), *slices)
    if facts.phase == "step":
        return (*first, *_shard(facts), frozen, lora)
    if facts.phase == "evaluation":
        if facts.framework not in _WITHOUT_GRADIENTS and "/trainer" not in facts.trace:
            first += (_NO_GRAD,)
        scattered = (_SEGMENTS,) if told.scattered else ()
        return (*first, *_evaluation(facts), *scattered, pixels, length)
    if facts.phase == "generation":
        return (
            *first,
            Do("fewer_answers", "slower rollouts"),
            *((Do("less_engine", "a smaller cache"),) if "vllm" in facts.trace else ()),
            pixels,
        )
    if facts.phase == "save":
        return (
            *first,
            Do("save_less", "no optimizer state to resume from"),
            Do(
                '"stage3_gather_16bit_weights_on_model_save": false and zero_to_fp32.py afterwards',
                "one more step by hand",
            ),
        )
    training = _training(facts, pixels, length, frozen, lora)
    if _one_row(facts, told) and any(words in facts.trace for words in _VOCABULARY):
        row = (*_batch(facts), length, Do("liger", "none: the logits are not kept as a whole"))
        return (*first, *row, *(do for do in training if do not in row))
    if _one_row(facts, told):
        row = (pixels, length) if facts.vision or not facts.model else (length,)
        return (*first, *row, *(do for do in training if do not in row))
    if told.scattered and not told.fragmented:
        return (*first, *training[:1], _SEGMENTS, *training[1:])
    return (*first, *training)


def _evaluation(facts: Facts) -> tuple[Do, ...]:
    """The logits of all rows so far are kept on the card: not to keep them is the remedy."""
    batch = Do("eval_batch", "slower evaluation")
    kept = Do("eval_accumulation", "slower evaluation: logits go to the host's memory each step")
    loss = Do("loss_only", "no metrics from logits")
    none = Do("fewer_evals", "no loss of held-out rows")
    if facts.said.get("per_device_eval_batch_size") != "1":
        return (batch, loss, none)
    logits = any(words in facts.trace for words in _LOGITS)
    return (loss, kept, none) if logits else (kept, loss, none)


def _training(facts: Facts, pixels: Do, length: Do, frozen: Do, lora: Do) -> tuple[Do, ...]:
    """In a step: first what changes neither the rows nor the result."""
    batch, shard = _batch(facts), _shard(facts)
    less = Do("checkpointing", "about a third slower")
    tower = Do("tower_checkpointing", "the tower's forward runs twice")
    if facts.framework == "FlagEmbedding":  # whose loss knows the rows of the micro-batch
        return (less, length, *batch, *shard)
    known = facts.micro is not None
    begin = (*batch, less) if known else (less, *batch)  # half of what nobody told is no number
    if not facts.vision:  # nothing says that it sees; of a model without a name it may
        images = () if facts.model else (tower, pixels, frozen)
        return (*begin, *shard, length, lora, *images)
    if known and not batch:  # one row at a time: what costs no detail comes first
        return (*begin, *shard, tower, pixels, length, frozen, lora)
    return (*begin, tower, pixels, length, frozen, *shard, lora)


FAILURE = Known(
    code="VG512",
    name="explain-out-of-memory",
    title="Out of GPU memory",
    zh="显存不足（CUDA out of memory）",
    why=_why,
    do=_do,
    wrong=(
        "At a random step it is one large image or long row: cap those "
        "(pixels, length) rather than the "
        "batch. A smaller micro-batch without more accumulation changes the global batch. "
        "torch.cuda.empty_cache() frees nothing that is in use."
    ),
    signs=(
        Sign("NVML_SUCCESS == r INTERNAL ASSERT"),
        Sign("CUDA out of memory", releases="torch 1.x to 2.15"),
        Sign("OutOfMemoryError", no=("SIGKILL",)),
        Sign("CUDA error: out of memory"),
        Sign("cuda runtime error (2) : out of memory"),
        Sign("CUDA Error: out of memory"),
        Sign("Cuda error: out of memory"),
        Sign("HIP out of memory"),
        Sign("NPU out of memory"),
        Sign("XPU out of memory"),
        Sign("MPS backend out of memory"),
        Sign("CUBLAS_STATUS_ALLOC_FAILED"),
        Sign("CUDNN_STATUS_ALLOC_FAILED"),
        Sign("Cuda failure 'out of memory'"),
        Sign("Cuda failure 2 'out of memory'"),
        Sign("cudaErrorMemoryAllocation"),
        Sign("No available memory for the cache blocks", releases="vLLM"),
        Sign("is less than desired GPU memory utilization", releases="vLLM"),
        Sign("Failed to CUDA calloc"),
        Sign("warp_ctc", also=("out of memory",)),
        Sign("CUDA_ERROR_OUT_OF_MEMORY"),
        Sign("Error out of memory at line", where="line"),
        Sign("cudaMalloc failed: out of memory"),
        Sign("CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        Sign("NCCL WARN Cuda failure 2 'out of memory'", where="line"),
        Sign("NCCL WARN Cuda failure 'out of memory'", where="line"),
        Sign("out of memory", no=("host", "cgroup", "Killed", "CPU", "node running")),
        Sign("KV cache is needed"),
        Sign("can be stored in KV cache"),
        Sign("No executable batch size found"),
        Sign("ResourceExhaustedError"),
        Sign("Failed to allocate memory for requested buffer"),
        Sign("EL0004", also=("allocate memory",)),
        Sign("torch_npu", where="line", also=("NPU out of memory",)),
        Sign("EL0004", releases="CANN"),
        Sign("Failed to allocate memory requested by", releases="CANN"),
        Sign("NCCL WARN Failed to CUDA", where="line", also=("alloc",)),
        Sign("Failed to CUDA", also=("alloc",)),
        Sign("CUDA Error: out of memory", where="line", releases="vLLM's cumem allocator"),
        Sign("Evaluation hit an out-of-memory error"),
        Sign("No or negligible GPU memory available", releases="unsloth"),
        Sign("If reserved but unallocated memory is large try setting", where="line"),
        Sign("If reserved memory is >> allocated memory try setting", where="line"),
    ),
    examples=(
        Example(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
            "2.00 GiB. GPU 0 has a total "
            "capacity of 79.15 GiB of which 1.21 GiB is free. Including "
            "non-PyTorch memory, this process "
            "has 77.93 GiB memory in use. Of the allocated memory 70.12 "
            "GiB is allocated by PyTorch, and "
            "5.33 GiB is reserved by PyTorch but unallocated.",
            "c10/cuda/CUDACachingAllocator.cpp, torch 2.5",
        ),
        Example(
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB "
            "(GPU 0; 15.78 GiB total capacity; "
            "14.20 GiB already allocated; 8.75 MiB free; 14.60 GiB reserved in total by PyTorch)",
            "c10/cuda/CUDACachingAllocator.cpp, torch 1.13",
        ),
    ),
    evidence="modelscope/ms-swift#2536; row 8; torch's own message.",
)
