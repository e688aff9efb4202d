"""Of which CUDA torch is, as a log says, and of which one a library would be that is missing."""

from __future__ import annotations

import re
from typing import Any

from vlmguard.explain import packages

# A start script's own prints: torch.__version__, torch.version.cuda, cuDNN's or is_available().
_PRINTED = re.compile(
    r"(?m)^(\d\.\d{1,2}\.\d{1,2})(?:\+cu\d{3})?\n(1[0-3]\.\d)\n(?:\d{4,6}|True|False)$"
)
# torch.utils.collect_env, ds_report, conda, a print with its name.
_TOLD = re.compile(
    r"(?i)(?:torch\.version\.cuda|torch cuda version|CUDA used to build PyTorch|pytorch-cuda)"
    r"[^\n\d]{1,40}(1[0-3]\.\d)\b"
)
_LOCAL = re.compile(r"\+cu(1[0-3])(\d)$")
# Libraries that are numbered as CUDA is.
_LIBRARY = re.compile(
    r"\blib(cudart|cublas|cublasLt|nvrtc|cupti|cusparse|nvJitLink)\.so\.(1[0-3])\b"
)
# The greeting of NVIDIA's own images.
_IMAGE = re.compile(
    r"built for NVIDIA Driver Release ([\d.]{3,12}) or later, but\s{1,20}version ([\d.]{3,14}) was"
)
# NVIDIA's packages of them, but for the CUDA in their names.
_PACKAGES = {
    "cudart": "cuda-runtime",
    "nvrtc": "cuda-nvrtc",
    "cupti": "cuda-cupti",
    "cublasLt": "cublas",
    "nvJitLink": "nvjitlink",
}
# Folders of torch's wheels for a CUDA.
_FOLDERS = {"11": "cu118", "12": "cu121"}


def passing(text: str, said: dict[str, str]) -> None:
    """Adds torch's CUDA, and the release that was printed before it, to what the log said."""
    if found := _PRINTED.search(text):
        said.setdefault("torchrelease", found[1])
        said.setdefault("torchcuda", found[2])
    elif found := _TOLD.search(text):
        said.setdefault("torchcuda", found[1])
    if found := _IMAGE.search(text):
        said.setdefault("imagedriver", found[1])
        said.setdefault("hostdriver", found[2])


def of_torch(facts: Any) -> str:
    """Torch's CUDA, "11.8"; "" where the log does not tell it."""
    local = _LOCAL.search(facts.releases.get("torch", ""))
    return f"{local[1]}.{local[2]}" if local else facts.said.get("torchcuda", "")


def of_library(message: str) -> str:
    """The CUDA, "12", of the library that a message misses."""
    match = _LIBRARY.search(message)
    return match[2] if match else ""


def package(message: str) -> str:
    """The part of NVIDIA's package that brings the library: "cublas" of nvidia-cublas-cu12."""
    match = _LIBRARY.search(message)
    return _PACKAGES.get(match[1], match[1]) if match else ""


def asker(facts: Any) -> str:
    """The package, as it is imported, whose import missed the library; not torch itself."""
    found = packages.INSIDE.findall(facts.trace)
    return found[-1] if found and found[-1] not in ("torch", "transformers") else ""


def wheels(major: str) -> str:
    """Where torch's own wheels of a CUDA lie."""
    return f"https://download.pytorch.org/whl/{_FOLDERS.get(major, f'cu{major}0')}"
