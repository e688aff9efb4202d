"""Driver, toolkit and torch do not fit."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Two libraries of CUDA's driver, of which the wrong one is found first.
_OTHER_LIBCUDA = ("unsupported display driver", "forward compatibility was attempted")
# The kernel still has the module that it loaded before the packages were updated.
UPDATED = (
    Do(
        "sudo reboot, of the host: its driver was updated while the old one's module was loaded; "
        "until then this job on another node",
        "none",
    ),
    Do(
        "sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe nvidia, on the "
        "host, where it may not be started anew and nothing uses its cards (sudo lsof "
        "/dev/nvidia*)",
        "none",
    ),
)
_STEPS = (
    Do(
        "python -c 'import torch; print(torch.__version__, torch.version.cuda)': +cpu, or a "
        "CUDA of None, is a build without CUDA: python -m pip install --force-reinstall torch "
        "--index-url https://download.pytorch.org/whl/cu126",
        "none",
        when=(
            "NCCL built in",
            "not compiled with CUDA",
            "_cuda_setDevice",
            "Cuda is not available",
            "nccl is not available",
        ),
    ),
    Do(
        "python -m pip install --force-reinstall torch torchvision --index-url {cardwheels}: this "
        "torch was not built for {capability}",
        "extensions (flash-attn, deepspeed's ops) are built again for it",
        when=("no kernel image", "kernel image is invalid", "not compatible with the current"),
        kind="card",
    ),
    Do(
        "python -c 'import torch; print(torch.cuda.get_device_capability(), "
        "torch.cuda.get_arch_list())': a card whose sm_ number is not in the list needs "
        "another "
        "build of torch (new cards: cu128 or newer), and extensions built for it",
        "none",
        when=("no kernel image", "kernel image is invalid", "not compatible with the current"),
        kind="card",
    ),
    Do(
        "python -m pip install --force-reinstall torch torchvision --index-url {wheels}: the "
        "driver goes up to CUDA {driver} (torchaudio, too, where it is installed); or update the "
        "driver to {newerdriver} or newer",
        "extensions (flash-attn, deepspeed's ops) are built again for it",
        kind="wheels",
    ),
    Do(
        "update the driver to {newerdriver} or newer: CUDA {driver}, the highest that this one "
        "knows, has no torch of today",
        "none",
        when=("found version",),
        kind="wheels",
    ),
    Do(
        "nvidia-smi, on the machine and again where the program runs: a table there and none "
        "here: docker run --gpus all …, srun --gres=gpu:1 …, or nvidia.com/gpu in the pod's "
        "limits; none on the machine either: a login node, or its driver is not loaded; a "
        "table in both: echo $CUDA_VISIBLE_DEVICES must name a card of it",
        "none",
        unless=("too old",),
        when=(
            "No CUDA GPUs",
            "no CUDA-capable",
            "NVIDIA driver",
            "No GPU",
            "no GPU",
            "driver/library",
            "Driver/library",
            "device type",
            "accelerator",
        ),
    ),
    Do(
        "echo $CUDA_VISIBLE_DEVICES, in the job: empty or a number that is not there hides all",
        "none",
        when=("No CUDA GPUs", "no CUDA-capable", "No GPU", "no GPU"),
    ),
    Do(
        "LD_LIBRARY_PATH=$(printf %s \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v compat | paste "
        "-sd:) in front of the command: the image's own libcuda (/usr/local/cuda/compat), which is "
        "for datacenter cards and older drivers than the image's, stands before the host's",
        "none",
        when=_OTHER_LIBCUDA,
    ),
    Do(
        "cat /proc/driver/nvidia/version; ls -l $(ldconfig -p | grep -o '/.*libcuda.so.1'): two "
        "releases: the driver was updated since: a new start of the container (docker restart "
        "NAME), or sudo reboot",
        "none",
        when=_OTHER_LIBCUDA,
    ),
    Do(
        "systemctl status nvidia-fabricmanager, on the host: the same release as the driver",
        "none",
        when=("system not yet initialized", "SystemNotReady", "NVLink SHARP", "IMEX"),
    ),
    Do(
        "nvidia-smi | grep -o 'CUDA Version: [0-9.]*': 11.x is cu118, 12.0 to 12.3 cu121, 12.4 "
        "and 12.5 cu124, 12.6 and 12.7 cu126, 12.8 and 12.9 cu128, 13.x cu130; then python -m "
        "pip install --force-reinstall torch torchvision --index-url "
        "https://download.pytorch.org/whl/THAT_NAME",
        "none",
        unless=(
            *("Found no NVIDIA", "No CUDA GPUs", "no CUDA-capable", "No GPU", "no GPU"),
            *("system not yet initialized", "SystemNotReady", *_OTHER_LIBCUDA),
        ),
        kind="wheels",
    ),
    Do(
        "docker run --gpus all …, with a base image not newer than the driver, in containers",
        "none",
    ),
)
_IMAGE = Do(
    "an older tag of this image in docker run: one whose greeting asks for no newer driver than "
    "{hostdriver} (this one: {imagedriver}); or the host's driver to {imagedriver} or later, and "
    "sudo reboot",
    "none",
)
_GPUS = Do("docker run --gpus all … (the rest as it was): it was started without a card", "none")


def _do(facts: Facts) -> tuple[Do, ...]:
    if "RmVersionMismatch" in facts.message or "mismatched" in facts.said:
        return UPDATED
    if "imagedriver" in facts.said:
        return (_IMAGE, *_STEPS)
    return (_GPUS, *_STEPS) if facts.said.get("docker") else _STEPS


FAILURE = Known(
    code="VG537",
    name="explain-driver",
    title="Driver, CUDA toolkit and torch do not fit together",
    zh="显卡驱动、CUDA 与 torch 版本不匹配",
    why="torch was built for a CUDA that this driver, card or container does not offer",
    do=_do,
    wrong="CUDA_VISIBLE_DEVICES set to nothing or to a wrong number "
    "gives 'no CUDA-capable device', too.",
    signs=(
        Sign("NCCL WARN CUDA Driver version found", where="line", also=("Minimum requirement",)),
        Sign("Cuda is not available"),
        Sign("is not supported in the installed CUDA driver"),
        Sign("Your assigned backend nccl is not available", releases="accelerate"),
        Sign("CUDA driver version is insufficient"),
        Sign("The NVIDIA driver on your system is too old"),
        Sign("no kernel image is available for execution"),
        Sign("device kernel image is invalid"),
        Sign("Found no NVIDIA driver on your system"),
        Sign("CUDA initialization: Unexpected error from cudaGetDeviceCount"),
        Sign("Unable to proceed, no GPU resources available"),
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
        Sign("No available GPU device found!"),
        Sign("There are currently no available devices found"),
        Sign("device_type.py in get_device_type", where="raised", releases="unsloth"),
        Sign("lightning/fabric/accelerators/cuda.py", where="raised"),
        Sign(
            "can not run on your system since the accelerator is not available",
            releases="Lightning",
        ),
        Sign("HIP error: invalid device function"),
        Sign("hipErrorNoBinaryForGpu", releases="ROCm"),
        Sign("hipErrorNoBinaryForGpu", where="line", releases="ROCm"),
        Sign("Unable to find code object for all current devices", where="line", releases="ROCm"),
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
