"""A part of CUDA that an extension misses (VG538): its CUDA beside torch's."""

from __future__ import annotations

import re

from vlmguard.explain import cudas, packages, wheels
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# They are released with torch, from its own folder.
_WITH_TORCH = ("torchvision", "torchaudio", "xformers")
_ANEW = "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps "
# Packages that are compiled against torch: others (onnxruntime, cupy) only want the library.
_EXTENSIONS = re.compile(
    r"flash_attn|apex|torch_\w{2,30}|causal_conv1d|mamba_ssm|transformer_engine|deep_gemm|natten"
    r"|detectron2|pytorch3d|grouped_gemm|sageattention|megablocks|auto_gptq|exllama\w{0,20}"
    r"|vllm|torchvision|torchaudio|xformers"
)


def steps(facts: Facts) -> tuple[Do, ...]:
    """What decides: two CUDAs that differ, or a package that only runs beside torch's own."""
    wanted, mine = cudas.of_library(facts.message), cudas.of_torch(facts)
    asker = cudas.asker(facts)
    if differs(facts) and _EXTENSIONS.fullmatch(asker):
        return (_rebuilt(facts, asker, wanted, mine), _torch_of(wanted, mine), *_without(asker))
    if wanted and not mine and asker == "flash_attn":
        return (_rebuilt(facts, asker, wanted, ""),)
    return (_library(facts.message, wanted),) if wanted in ("11", "12") else ()


def first(facts: Facts) -> bool:
    """Whether they come before a look for the library: torch's own CUDA would have brought it."""
    return differs(facts) or (cudas.asker(facts) == "flash_attn" and not cudas.of_torch(facts))


def differs(facts: Facts) -> bool:
    """Whether the log tells that torch is of another CUDA than the library that is missing."""
    wanted, mine = cudas.of_library(facts.message), cudas.of_torch(facts)
    return bool(wanted and mine) and mine.partition(".")[0] != wanted


def _library(message: str, wanted: str) -> Do:
    """The library alone, by NVIDIA's package of it."""
    part = cudas.package(message)
    module = f"nvidia.{part.replace('-', '_')}"
    return Do(
        f"python -m pip install nvidia-{part}-cu{wanted}, and in front of the command "
        f"LD_LIBRARY_PATH=$(python -c 'import {module} as m; print(list(m.__path__)[0])')/lib:"
        "$LD_LIBRARY_PATH",
        "none",
    )


def _rebuilt(facts: Facts, asker: str, wanted: str, mine: str) -> Do:
    """The asking package for the torch that is there."""
    there = f"this torch is of CUDA {mine}" if mine else "this torch is of another CUDA"
    if asker in _WITH_TORCH:
        folder = cudas.wheels(mine.partition(".")[0])
        return Do(
            f"python -m pip install --force-reinstall --no-deps {asker} --index-url {folder}: the "
            f"one that is there is of CUDA {wanted}, {there}",
            "none",
        )
    if asker == "vllm":
        return Do(
            f"python -m pip install --force-reinstall vllm: it is of CUDA {wanted}, {there}, and "
            "it brings the torch that it is built for",
            "other releases than those that are there",
        )
    if asker != "flash_attn":
        name = packages.of(asker) or asker.replace("_", "-")
        return Do(
            f"{_ANEW}--no-binary {name} {name}: built for this torch; the one that is there is of "
            f"CUDA {wanted}, {there}",
            "time to build",
        )
    pin = wheels.flash(facts, mine) or wheels.FLASH
    return Do(
        f"{_ANEW}flash-attn=={pin}: it fetches the wheel of this torch and its CUDA; the one that "
        f"is there is of CUDA {wanted}, {there} (built in isolation, or another wheel by name)",
        "time to build, where Python or CUDA has no wheel",
    )


def _without(asker: str) -> tuple[Do, ...]:
    slower = "slower and more memory than flash-attention"
    return (Do("sdpa", slower),) if asker == "flash_attn" else ()


def _torch_of(wanted: str, mine: str) -> Do:
    return Do(
        f"python -m pip install torch torchvision --index-url {cudas.wheels(wanted)}: or the other "
        f"way round, a torch of CUDA {wanted} in place of {mine}",
        "other releases than those that are there",
    )
