"""DeepSpeed cannot build an op."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "python -c 'from deepspeed.ops.op_builder import CPUAdamBuilder as b; "
        "b().load()': it builds the op again and prints the compiler's own reason (no "
        "nvcc, gcc too old or too new, no Python.h)",
        "none",
        when=(
            "cpu_adam",
            "CPUAdam",
            "ds_opt_adam",
        ),
    ),
    Do(
        "CUDA_HOME=$(dirname $(dirname $(command -v nvcc || ls -d "
        "/usr/local/cuda/bin/nvcc))) in front of the command; no nvcc at all: conda "
        "install -c nvidia cuda-nvcc, or an image with -devel in its name",
        "none",
        when=(
            "CUDA_HOME does not exist",
            "CUDA_HOME environment variable is not set",
        ),
    ),
    Do(
        "grep -n -m5 -E 'error:|fatal error|not found' {log}: the compiler's own first "
        "words; the line that begins with FAILED names the file",
        "none",
        when=(
            "inja', '-v'",
            "Ninja build failed",
            "Error building extension",
        ),
        kind="ninja",
    ),
    Do(
        "rm -rf ~/.cache/torch_extensions: the build is made anew",
        "a few minutes",
        when=("lock", "torch_extensions", "cannot open shared object"),
    ),
    Do(
        "python -m pip install ninja",
        "none",
        when=("Ninja is required", "ninja: not found", "No module named 'ninja'"),
    ),
    Do(
        "ds_report; nvcc --version; python -c 'import torch; print(torch.version.cuda)': the "
        "toolkit in CUDA_HOME must be torch's own major release",
        "none",
    ),
    Do(
        "install CUDA's toolkit of torch's own release and set CUDA_HOME; pip install ninja",
        "none",
    ),
    Do("apt-get install libaio-dev, for ZeRO-Infinity's NVMe", "none", when=("aio",)),
    Do(
        "torch's AdamW (\"torch_adam\": true, or no optimizer section in DeepSpeed's config)",
        "somewhat slower; with CPU offload zero_force_ds_cpu_optimizer: false",
    ),
)
_TOOLKIT = re.compile(r"Installed CUDA version [\d.]{1,8} does not match .{0,60}?([\d.]{2,8}\d)\b")


# Its own builder's, into a folder of its own.
_OF_COLOSSALAI = (
    Do(
        "grep -n -m5 -E 'error:|fatal error|not found' {log}: the compiler's own first words; an "
        "option -std=c++… that it does not know: it is too old: conda install -y -c conda-forge "
        "gxx_linux-64=11; export CC=$CONDA_PREFIX/bin/x86_64-conda-linux-gnu-gcc "
        "CXX=$CONDA_PREFIX/bin/x86_64-conda-linux-gnu-g++; rm -rf ~/.cache/colossalai; and the "
        "same command",
        "none",
    ),
    Do(
        "nvcc --version; python -c 'import torch; print(torch.version.cuda)': the toolkit in "
        "CUDA_HOME must be torch's own major release; none: conda install -c nvidia cuda-toolkit",
        "none",
    ),
    Do(
        "torch.optim.AdamW in place of HybridAdam or CPUAdam: no op has to be built",
        "slower where the optimizer's states are in the host's memory",
    ),
)


def _older(most: str) -> Do:
    return Do(
        f"CC=gcc-{most} CXX=g++-{most} in front of the same command, after rm -rf "
        f"~/.cache/torch_extensions: this CUDA takes gcc up to {most} (sudo apt-get install "
        f"gcc-{most} g++-{most}; conda install -c conda-forge gxx_linux-64={most})",
        "none",
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if gcc := facts.said.get("gcc"):
        return (_older(gcc), *_STEPS)
    if "colossalai/" in facts.trace:
        return _OF_COLOSSALAI
    if (match := _TOOLKIT.search(facts.message)) is None:
        return _STEPS
    cuda = match[1]
    here = Do(
        f"ls -d /usr/local/cuda*: where cuda-{cuda} is there, CUDA_HOME=/usr/local/cuda-{cuda} in "
        f"front of the same command; else conda install -c nvidia cuda-toolkit={cuda}",
        "none",
    )
    return (here, *_STEPS)


FAILURE = Known(
    code="VG557",
    name="explain-op-build",
    title="DeepSpeed cannot build or load one of its ops",
    zh="DeepSpeed 编译算子失败",
    why="DeepSpeed and ColossalAI compile optimizers and asynchronous I/O on first "
    "use; here the compiler, CUDA's toolkit, ninja, or a lock file "
    "stands in the way",
    do=_do,
    wrong="DS_SKIP_CUDA_CHECK=1 silences a real mismatch of CUDA releases.",
    signs=(
        Sign("CUDA_HOME does not exist"),
        Sign("MissingCUDAException"),
        Sign("Unable to JIT load the"),
        Sign("CUDAMismatchException"),
        Sign("Error building extension"),
        Sign("Ninja is required to load C++ extensions"),
        Sign("'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'"),
        Sign("CUDA_HOME environment variable is not set"),
        Sign("Ninja build failed"),
        Sign("ninja: build stopped"),
        Sign("Installed CUDA version"),
        Sign("has no attribute 'ds_opt_adam'"),
        Sign("ninja", also=("returned non-zero exit status",)),
        Sign(
            "fatal error: Python.h",
        ),
        Sign("cpu_adam", also=("ImportError",)),
        Sign("fused_adam", also=("ImportError",)),
        Sign("gcc", also=("failed",)),
        Sign("which failed to build/load"),
        Sign("nvcc", also=("No such file",)),
        Sign("PyTorch version mismatch! DeepSpeed"),
        Sign("CUDA version mismatch! DeepSpeed"),
        Sign("torch_extensions", also=("cannot open shared object",)),
        Sign("no compute capabilities remaining"),
        Sign("deepspeed/ops/op_builder", where="raised"),
        Sign("torch/utils/cpp_extension.py", where="raised"),
        Sign(
            "deepspeed/ops/",
            where="raised",
            no=("size of tensor", "shapes cannot", "invalid for input", "values to unpack"),
        ),
        Sign("FAILED: ", where="line", also=(".cuda.o",)),
    ),
    examples=(
        Example(
            "deepspeed.ops.op_builder.builder.MissingCUDAException: "
            "CUDA_HOME does not exist, unable to compile CUDA op(s)",
            "made by causing it, DeepSpeed 0.19.8",
        ),
        Example(
            "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'",
            "deepspeed/ops/adam/cpu_adam.py, 0.14.5; the failure before it is the cause",
        ),
    ),
    evidence="deepspeed/ops/op_builder/builder.py, 0.19.8.",
    narrow=3,
)
