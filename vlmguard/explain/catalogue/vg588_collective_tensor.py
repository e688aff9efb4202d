"""A collective refuses the tensor that it was given."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG588",
    name="explain-collective-tensor",
    title="A collective refused its tensor: where it lies, its layout, type or size",
    zh="集合通信拒绝了传入的张量（所在设备没有对应后端、内存不连续、类型或大小不符）",
    why=(
        "the ranks met, and the tensor that was to be sent is not one that the backend takes: it "
        "lies on the CPU where only NCCL was set up, it is not contiguous, or the lists do not "
        "have one tensor for each rank"
    ),
    do=(
        Do(
            "{place}: [torch.empty_like(x) for _ in range(dist.get_world_size())], one tensor "
            "for each rank, as the list that is filled",
            "none",
            when=(
                "output tensor list",
                "list of output",
                "tensor list size",
                "expected length",
            ),
            kind="list",
        ),
        Do(
            "[torch.empty_like(x) for _ in range(dist.get_world_size())], one tensor for each "
            "rank, as the list that is filled",
            "none",
            when=(
                "output tensor list",
                "tensor list size",
            ),
            kind="list",
        ),
        Do(
            "python -m pip install -U accelerate, for an evaluation: since 0.22 it makes tensors "
            "contiguous before it gathers them; in your own code x.contiguous() before the "
            "collective",
            "a copy",
            when=("contiguous",),
        ),
        Do(
            "print({p.dtype for p in model.parameters()}) before the model is wrapped: two of them "
            "cannot share a bucket (ZeRO-3, FSDP); model.to(torch.bfloat16), or one torch_dtype",
            "none",
            when=("same type", "dtype"),
        ),
        Do(
            "in code of your own: out = torch.empty_like(x) for the output tensor",
            "none",
            when=("same type", "dtype"),
        ),
        Do(
            "dist.init_process_group('cpu:gloo,cuda:nccl') in place of 'nccl', or x.cuda() in "
            "front of the collective: a tensor lies on the CPU (offloaded, or just read)",
            "none",
        ),
        Do("not contiguous: x.contiguous() before the collective", "a copy"),
        Do(
            "in an evaluation: accelerate ≥ 0.22 (pip install -U accelerate): it makes tensors "
            "contiguous before it gathers them",
            "none",
        ),
        Do(
            "every rank's part of the same size: pad first (accelerator.pad_across_processes)",
            "none",
        ),
    ),
    wrong="Ranks that hang in a collective are another matter (VG505).",
    signs=(
        Sign("is not a valid pointer", where="line", also=("NCCL WARN",)),
        Sign("mismatchs with NCCL device", where="line", releases="NCCL: src/misc/argcheck.cc"),
        Sign("NCCL WARN FP8 reduction support begins", where="line", releases="NCCL ≥ 2.24"),
        Sign("Only nested list/tuple/dicts of objects", releases="accelerate"),
        Sign("Tensor list input to scatter/gather must match"),
        Sign("ensors must be contiguous", releases="torch 1.x to 2.13"),
        Sign("No backend type associated with device type", releases="torch ≥ 2.0"),
        Sign("ensors must be CUDA and dense", releases="torch 1.x to 2.13"),
        Sign("ensors must be on distinct GPU devices"),
        Sign("ensors must be on the same GPU device"),
        Sign("ensors must have identical type"),
        Sign("ensors must have identical size"),
        Sign("ensor list mustn't be larger than the number of available GPUs"),
        Sign("ensor list must be nonempty"),
        Sign("output tensor size must be equal to world_size times input tensor size"),
        Sign("input tensor must be the same size as output size times world size"),
        Sign("input tensor must be the same type as the output"),
        Sign("output tensor must have the same type as input tensor"),
        Sign("Output tensor list size should be"),
        Sign("invalid tensor size at index", also=("expected",)),
        Sign("invalid tensor type at index", also=("expected",)),
        Sign("Unconvertible NCCL type", releases="torch ≥ 2.0"),
        Sign("Unsupported data type for NCCL process group"),
        Sign("Input tensor data type is not supported for NCCL process group"),
        Sign("Cannot use ReduceOp."),
        Sign("does not support allgather_into_tensor_coalesced"),
        Sign("does not support alltoall"),
        Sign("does not support reduce_scatter"),
        Sign("ProcessGroupGloo::", also=("unsupported",)),
        Sign("ProcessGroupGloo::", beside=(": invalid ",)),
        Sign("ProcessGroupGloo::", beside=(": requires ",)),
        Sign("Invalid function argument. Expected parameter", also=("ensor",)),
        Sign("Invalid usage of tensors with different dtypes"),
        Sign("Cannot apply desired operation due to shape mismatches", releases="accelerate"),
        Sign("desired operation due to inadequate shapes", releases="accelerate"),
        Sign("One or more of the tensors passed to", also=("were not on the",)),
        Sign("passed to `gather`", also=("Unsupported types",)),
        Sign("passed to `_gpu_gather", also=("Unsupported types",)),
        Sign("passed to `broadcast`", also=("Unsupported types",)),
        Sign("passed to `_gpu_broadcast", also=("Unsupported types",)),
        Sign("DistributedOperationException"),
        Sign("all_gather", where="else"),
        Sign("all_reduce", where="else"),
        Sign("allreduce", where="else"),
        Sign("reduce_scatter", where="else"),
        Sign("process group", where="else"),
    ),
    examples=(
        Example(
            "RuntimeError: No backend type associated with device type cpu",
            "torch/csrc/distributed/c10d/ProcessGroup.hpp, 2.13.0",
        ),
        Example(
            "RuntimeError: Tensors must be contiguous",
            "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.13.0",
        ),
    ),
    evidence="huggingface/transformers#25076, huggingface/trl#663, hiyouga/LlamaFactory#850.",
    narrow=0,
)
