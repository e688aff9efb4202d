"""Out of GPU memory: who, in which phase, and what to change so that the global batch stays."""

from __future__ import annotations

from vlmguard.explain import memory
from vlmguard.explain.catalogue import out_of_memory_aside, out_of_memory_engine
from vlmguard.explain.catalogue import out_of_memory_steps as steps
from vlmguard.explain.failure import Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_PHASE = {
    "load": "while the model was loaded",
    "forward": "in forward",
    "backward": "in backward",
    "step": "where the optimizer works",
    "evaluation": "in evaluation",
    "generation": "in generation",
    "save": "while saving",
    "data": "while a batch was prepared",
}


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in out_of_memory_engine.CACHE):
        return (
            "vLLM takes its share of the card before anything else, and what is left in it after "
            "the weights (or on the card, for that share) does not hold the cache of one long row"
        )
    told = memory.read(facts.message)
    if out_of_memory_engine.of_engine(facts):
        return (
            "vLLM asked for its part of the card (its cache, or its weights where it wakes up), "
            "and the training that stands on the same card had left too little"
        )
    phase = "save" if out_of_memory_aside.saves(facts) else facts.phase
    parts = [f"the GPU's memory ran out {_PHASE.get(phase, '')}".rstrip()]
    if told.asked is not None:
        parts.append(
            f"{memory.size(told.asked)} were asked for, "
            f"{memory.size(told.free)} of {memory.size(told.total)} free"
        )
    if steps.one_row(facts, told):
        parts.append(
            "this one request is more than half of the card: one tensor of one very long row or "
            "very large image (attention, logits), which no sharding makes smaller"
        )
    if steps.resumes(facts):
        parts[0] = "the GPU's memory ran out where a checkpoint's optimizer was read"
    elif facts.phase == "load" and not (told.other or 0) > 1:
        parts.append("no step has begun: the weights alone do not fit")
    if steps.filled(facts, told):
        parts.append("the card was full before the first batch: weights, gradients and optimizer")
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


FAILURE = Known(
    code="VG512",
    name="explain-out-of-memory",
    title="Out of GPU memory",
    zh="显存不足（CUDA out of memory）",
    why=_why,
    do=steps.steps,
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
