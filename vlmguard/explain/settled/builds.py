"""What was not built, or not for this machine: extensions, libraries, cards."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_LIBUV = "torch for Windows is built without libuv, which 2.4 and later take by default"
TABLE = (
    Settled(
        said=("Using RTX 4000 series doesn't support",),
        steps=(
            "NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 in front of the same command, or accelerate "
            "launch in place of torchrun, which sets both: accelerate asks for it on these cards",
        ),
        why="accelerate refuses several cards of the RTX 4000 series with NCCL's P2P and IB on",
        code="VG536",
    ),
    Settled(
        said=("NameError: name 'colossal_C' is not defined",),
        steps=(
            "CUDA_EXT=1 python -m pip install -v --no-cache-dir --force-reinstall colossalai: it "
            "was installed without its CUDA extension (python -c 'import colossal_C' must then "
            "work; the toolkit, nvcc, of torch's own CUDA)",
            "the configuration without clip_grad_norm: it alone asks for the extension here",
        ),
        why="ColossalAI's CUDA extension is not there",
        code="VG538",
    ),
    Settled(
        said=("No such file or directory", "colossalai/kernel/extensions/"),
        steps=(
            "python -m pip uninstall -y colossalai; git clone "
            "https://github.com/hpcaitech/ColossalAI && cd ColossalAI && BUILD_EXT=1 python -m pip "
            "install .: what is installed has neither the built op nor the sources of it",
            "torch.optim.AdamW in place of HybridAdam or FusedAdam: no op has to be built",
        ),
        why="ColossalAI's op was not built when it was installed, and its sources are not there",
        code="VG538",
    ),
    Settled(
        said=("Failed to open libnvidia-ml.so",),
        steps=(
            "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …: the container "
            "has not the driver's utilities, which NCCL asks (ldconfig -p | grep libnvidia-ml; "
            "nvidia-smi must run in it); docker compose: capabilities: [gpu, utility]",
        ),
        why="NCCL could not open the driver's own library of management (NVML)",
        code="VG537",
    ),
    Settled(
        said=("use_libuv was requested",),
        trace=("static_tcp_rendezvous.py",),
        steps=(
            "python TRAIN.py …, or without FORCE_TORCHRUN (PowerShell: Remove-Item "
            "Env:FORCE_TORCHRUN; $env:CUDA_VISIBLE_DEVICES = '0'): one card needs no torchrun, "
            "whose own store asks for libuv on Windows and does not look at USE_LIBUV",
            "the same command in WSL 2 or on Linux: several cards",
        ),
        why=_LIBUV,
        code="VG584",
    ),
    Settled(
        said=("use_libuv was requested",),
        steps=(
            "USE_LIBUV=0 in front of the command (PowerShell: $env:USE_LIBUV = '0'; cmd: set "
            "USE_LIBUV=0)",
        ),
        why=_LIBUV,
        code="VG584",
    ),
)
