"""Driver, toolkit and torch do not fit."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG537",
    name="explain-driver",
    title="Driver, CUDA toolkit and torch do not fit together",
    zh="显卡驱动、CUDA 与 torch 版本不匹配",
    why="torch was built for a CUDA that this driver, card or container does not offer",
    do=(
        Do(
            "nvidia-smi (the driver's highest CUDA) beside python -c "
            "'import torch; print(torch.version.cuda)'",
            "none",
        ),
        Do("install the torch wheel for the driver's CUDA, or update the driver", "none"),
        Do(
            "in a container: run with --gpus all, and a base image not newer than the driver",
            "none",
        ),
    ),
    wrong="CUDA_VISIBLE_DEVICES set to nothing or to a wrong number "
    "gives 'no CUDA-capable device', too.",
    signs=(
        Sign("CUDA driver version is insufficient"),
        Sign("The NVIDIA driver on your system is too old"),
        Sign("no kernel image is available for execution"),
        Sign("device kernel image is invalid"),
        Sign("Found no NVIDIA driver on your system"),
        Sign("CUDA initialization: Unexpected error from cudaGetDeviceCount"),
        Sign("No CUDA GPUs are available"),
        Sign("no CUDA-capable device is detected"),
        Sign("forward compatibility was attempted"),
        Sign("system not yet initialized"),
        Sign("CUDA driver initialization failed"),
        Sign("Torch not compiled with CUDA enabled"),
        Sign("The detected CUDA version"),
        Sign("CUDA error: the provided PTX was compiled with an unsupported toolchain"),
        Sign("is not compatible with the current PyTorch installation"),
        Sign("Driver/library version mismatch"),
        Sign("unknown error - this may be due to an incorrectly set up environment"),
        Sign("nvrtc: error: invalid value for --gpu-architecture"),
        Sign("Driver/library version mismatch", where="line"),
        Sign("found no NVIDIA driver"),
        Sign("Distributed package doesn't have NCCL built in"),
        Sign("ProcessGroupNCCL is only supported with GPUs"),
        Sign("Unexpected error from cudaGetDeviceCount"),
        Sign("unsupported display driver / cuda driver combination"),
        Sign("cudaErrorInsufficientDriver"),
        Sign("couldn't communicate with the NVIDIA driver", where="line"),
        Sign("'_cuda_setDevice'"),
        Sign("NCCL version mismatch"),
        Sign("cuDNN version incompatibility"),
        Sign("RmVersionMismatch"),
        Sign("DriverNotLoaded"),
        Sign("NVMLError_LibraryNotFound"),
        Sign("NVML Shared Library Not Found"),
        Sign("Failed to infer device type"),
        Sign("torch.cuda.is_available() is False"),
        Sign("CUDA is required but not available"),
        Sign(
            "GPU is required",
        ),
        Sign("No GPU found"),
        Sign("No GPU or XPU found"),
        Sign("NVIDIA GPU not found"),
        Sign("CUDA_ERROR_NO_DEVICE"),
        Sign("cudaErrorNoDevice"),
        Sign("requires a CUDA GPU"),
        Sign("Cannot find any torch accelerator"),
        Sign("cannot find NVIDIA GPU"),
        Sign("no GPU is available"),
        Sign("torch/cuda/__init__.py in _lazy_init", where="raised"),
        Sign("in _cuda_init", where="raised"),
        Sign("no CUDA-capable device is detected", where="line"),
        Sign("forward compatibility was attempted", where="line"),
        Sign("Mismatched NCCL version detected"),
        Sign("Mismatched NCCL version detected", where="line"),
        Sign("NCCL library is too old", where="line"),
        Sign("Failed to bind NVLink SHARP", where="line", releases="NCCL: the Fabric Manager"),
        Sign("is available but not working on this system. Check the IMEX", where="line"),
        Sign("invalid device function"),
        Sign("cudaErrorNoKernelImageForDevice"),
        Sign("cudaErrorSystemNotReady"),
        Sign("Failed to bind NVLink SHARP"),
    ),
    examples=(
        Example(
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
            "torch/csrc/cuda/Module.cpp, 2.4",
        ),
        Example(
            "RuntimeError: Found no NVIDIA driver on your system. Please "
            "check that you have an NVIDIA GPU and installed a driver from "
            "http://www.nvidia.com/Download/index.aspx",
            "torch/cuda/__init__.py, 2.13.0",
        ),
    ),
    evidence="torch's own messages.",
    narrow=3,
)
