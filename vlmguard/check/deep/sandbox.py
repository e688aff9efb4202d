"""An environment in which a framework's own code can run without touching what is the user's."""

from __future__ import annotations

import os
import re
import site
from pathlib import Path

_CACHES = ("HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "MODELSCOPE_CACHE", "TORCH_HOME",
           "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "MPLCONFIGDIR",
           "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "WANDB_DIR",
           "NUMBA_CACHE_DIR")  # fmt: skip
_GONE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_TOKEN", "RANK",
         "HUGGING_FACE_HUB_TOKEN", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
         "NPROC_PER_NODE", "NNODES", "MASTER_ADDR", "MASTER_PORT", "VLMGUARD_REPORT",
         "VLMGUARD_RESOLVED", "VLMGUARD")  # fmt: skip
CPU = {
    "CUDA_VISIBLE_DEVICES": "",
    "ASCEND_RT_VISIBLE_DEVICES": "",
    "DS_ACCELERATOR": "cpu",
    "ACCELERATE_TORCH_DEVICE": "cpu",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
}
"""No GPU, no network, one thread."""
_HERE = re.compile(
    r"No space left|No module named|"
    r"\bCUDA\b|NVIDIA driver|flash[_ -]?attn|FlashAttention|bitsandbytes|"
    r"not implemented for '?(Half|BFloat16)|fp16 mixed precision|[Ff][Pp]16 is not supported|"
    r"requires a GPU|offline mode|OfflineMode|LocalEntryNotFound|"
    r"ConnectionError|MemoryError|triton|pin_memory=True requires|"
    r"required but not installed"
)


def environment(folder: Path) -> dict[str, str]:
    """Home and every known cache lie in ``folder``; packages of the user's own stay importable."""
    given = {name: value for name, value in os.environ.items() if name not in _GONE}
    for name in ("home", "tmp", "caches"):
        (folder / name).mkdir(exist_ok=True)
    given.update({name: str(folder / "caches" / name.lower()) for name in _CACHES})
    return {
        **given,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONUSERBASE": given.get("PYTHONUSERBASE") or site.getuserbase(),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def lacking(message: str) -> bool:
    """Whether a failure says what a CPU without a network lacks, and nothing of the command."""
    return _HERE.search(message) is not None
