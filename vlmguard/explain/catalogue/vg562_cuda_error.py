"""A CUDA kernel failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

# Refused by the library at once: the traceback names the line already.
_AT_ONCE = (
    "unable to find an engine",
    "nable to find a valid cuDNN algorithm",
    "CUDNN_STATUS_NOT_SUPPORTED",
    "CUDNN_STATUS_BAD_PARAM",
    "CUDNN_STATUS_VERSION_MISMATCH",
    "CUBLAS_STATUS_INVALID_VALUE",
    "CUBLAS_STATUS_NOT_SUPPORTED",
    "triton.runtime.errors.OutOfResources",
    "too many resources requested",
)
_CUDNN = (*_AT_ONCE[:5], "CUDNN_STATUS_SUBLIBRARY")  # no kernel of cuDNN's, or another cuDNN's
_PINNED = (
    "python -m pip install --force-reinstall --no-deps \"$(python -c 'import importlib.metadata as "
    'm; print(next(r for r in m.requires("torch") if "cudnn" in r).partition(";")[0])\')": the '
    "cuDNN that this torch was built with"
)
_CONVOLVED = (
    "python -c 'import torch; c = torch.nn.Conv2d(3, 8, 14, 14).cuda().bfloat16(); "
    "print(torch.backends.cudnn.version(), c(torch.randn(1, 3, 336, 336).cuda().bfloat16()).shape)'"
    ": fails likewise: it is the installation, not the model or the data"
)

FAILURE = Known(
    code="VG562",
    name="explain-cuda-error",
    title="A CUDA kernel or library call failed",
    zh="CUDA 内核或库调用失败",
    why="a kernel read where it must not, or cuBLAS or cuDNN failed: a "
    "compiled extension that does not fit, an index out of range, "
    "or memory that ran out inside the library",
    do=(
        Do(
            "halve",
            "none; cuBLAS could not get the memory that it works in",
            when=(
                "CUBLAS_STATUS_ALLOC_FAILED",
                "CUBLAS_STATUS_NOT_INITIALIZED",
                "CUDNN_STATUS_ALLOC_FAILED",
                "CUDNN_STATUS_NOT_INITIALIZED",
            ),
        ),
        Do(
            "unset LD_LIBRARY_PATH, then the same command: another cuDNN stands in it and is "
            "loaded before torch's own",
            "none",
            when=_CUDNN,
        ),
        Do(_PINNED, "none", when=_CUDNN),
        Do(_CONVOLVED, "none", when=_CUDNN),
        Do(
            "LD_LIBRARY_PATH= in front of the command: another CUDA's cuBLAS stands in it and "
            "is loaded before torch's own",
            "none",
            when=(
                "CUBLAS_STATUS_INVALID_VALUE",
                "CUBLAS_STATUS_NOT_SUPPORTED",
            ),
        ),
        Do(
            "AMD_SERIALIZE_KERNEL=3 HIP_LAUNCH_BLOCKING=1 in front of the command: the "
            "traceback then names the line",
            "slow",
            when=(
                "Memory access fault by GPU",
                "HIP error",
            ),
            kind="blocking",
        ),
        Do(
            "NCCL_DEBUG=INFO in front of the command: the line with WARN above it says which "
            "call failed",
            "a long log",
            when=("unhandled cuda error",),
        ),
        Do(
            "NCCL_NVLS_ENABLE=0 in front of the command: without NVLink SHARP",
            "a little slower",
            when=("nvls",),
        ),
        Do(
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False in front of the command (unsloth "
            "sets it by itself: os.environ[…] = … behind import unsloth): a virtual GPU, a Jetson "
            "or an old driver cannot map memory in pieces",
            "more fragmentation",
            when=("CUDA driver error: operation not supported",),
            kind="blocking",
        ),
        Do(
            "python -m pip install -U --no-cache-dir unsloth unsloth_zoo: releases of January 2025 "
            "switch pinned_use_cuda_host_register on; without unsloth: take it out of "
            "PYTORCH_CUDA_ALLOC_CONF",
            "none",
            when=("dont match with cudaHostRegister",),
            kind="blocking",
        ),
        Do(
            "dmesg -T | grep -i xid | tail -3, on that machine: Xid 13, 31 or 43 is the program "
            "(next step); 48, 62 to 64, 74, 79, 92, 94, 95, 119 the card or its driver: another "
            "node, or sudo reboot (VG534)",
            "none",
            when=("unspecified launch failure",),
        ),
        Do(
            "CUDA_LAUNCH_BLOCKING=1 in front of the command: the traceback then names the line",
            "slow",
            unless=_AT_ONCE,
            kind="blocking",
        ),
        Do("sdpa", "slower; tells whether flash-attention is at fault", unless=_CUDNN),
        Do(
            "reinstall compiled packages for this torch (VG538), and look "
            "for Xid lines in dmesg (VG534)",
            "time",
        ),
    ),
    wrong="cuBLAS' 'not initialized' and 'alloc failed' are often plain lack of memory (VG512).",
    signs=(
        Sign("FIND was unable to find an engine"),
        Sign("CUDA error: an illegal memory access"),
        Sign("an illegal memory access was encountered"),
        Sign("CUBLAS_STATUS_"),
        Sign("CUDNN_STATUS_"),
        Sign("cuDNN error"),
        Sign("CUDA error: misaligned address"),
        Sign("CUDA error: launch"),
        Sign("CUDA error: unspecified launch failure"),
        Sign("CUDA kernel errors might be asynchronously reported"),
        Sign("unhandled cuda error"),
        Sign("following async exception: NCCL error: unhandled cuda error", where="line"),
        Sign("CUDA error: unknown error"),
        Sign("CUDA driver error"),
        Sign("Unable to find a valid cuDNN algorithm"),
        Sign("ncclUnhandledCudaError"),
        Sign("Triton Error"),
        Sign("triton.runtime.errors.OutOfResources"),
        Sign("GET was unable to find an engine"),
        Sign("CUSOLVER"),
        Sign("cusparse"),
        Sign("CUDA error: invalid"),
        Sign("CUDA error: operation not permitted"),
        Sign("CUDA error: API call is not supported"),
        Sign("CUDA error: the launch timed out"),
        Sign("CUDA error: invalid argument"),
        Sign(
            "cumem_allocator",
            where="line",
            also=("CUDA Error",),
            no=("out of memory",),
            releases="vLLM",
        ),
        Sign("CUDA error: invalid device function"),
        Sign("CUDA error: invalid resource handle"),
        Sign(
            " at line ",
            where="line",
            also=("Error ", "/csrc/", " in file /"),
            no=("out of memory",),
            releases="bitsandbytes",
        ),
        Sign(
            "NCCL WARN Cuda failure",
            where="line",
            no=("out of memory", "invalid device ordinal", "misc/shmutils.cc"),
        ),
        Sign("the launch timed out and was terminated"),
        Sign("too many resources requested for launch"),
        Sign("mapping of buffer object failed"),
        Sign("peer access is not supported"),
        Sign("CUDA error: "),
        Sign("HIP error: "),
        Sign("Memory access fault by GPU node", where="line", releases="ROCm"),
        Sign("HSA_STATUS_ERROR", where="line", no=("OUT_OF_RESOURCES",), releases="ROCm"),
        Sign("HSA_STATUS_ERROR"),
        Sign("MIOpen Error", where="line", releases="ROCm"),
        Sign("miopenStatus"),
        Sign("unspecified launch failure"),
        Sign("cuda runtime error (30)"),
        Sign("cuda runtime error (77)"),
        Sign(
            "cuda runtime error (",
            where="line",
            no=("(2)", "(38)", "(10)", "(35)"),
            releases="torch ≤ 1.7, Lua torch",
        ),
        Sign("Host and device pointer dont match with cudaHostRegister"),
        Sign("cublasLt ran into an error"),
    ),
    examples=(
        Example(
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "c10/cuda/CUDAException.cpp, torch 2.4",
        ),
        Example(
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when "
            "calling `cublasGemmEx(…)`",
            "ATen/cuda/CUDABlas.cpp, torch 2.4",
        ),
    ),
    evidence="torch's own messages.",
    narrow=-1,
)
