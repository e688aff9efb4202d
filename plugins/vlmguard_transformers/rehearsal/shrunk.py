"""A tiny checkpoint of a model's real class: its own config shrunk, random weights, and its own
tokenizer and processor."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

from vlmguard_torch.observe.shrink import parts_of, shrink
from vlmguard_transformers.rehearsal import published

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack",
            ".index.json", ".part", ".incomplete", ".npz")  # fmt: skip
LARGEST = 64 << 20
"""Bytes; no tokenizer is larger."""
LOUDER, QUIET = 4.0, 0.06
"""The usual 0.02 makes attention in a tiny model uniform, and gradients drown in rounding."""
MOST_LAYERS = 4


def remote(source: Path) -> list[str]:
    """Files of the model's own code that loading it would run."""
    config = json.loads((source / "config.json").read_text("utf-8"))
    named = str(config.get("auto_map") or "")
    if not named:
        return []
    return sorted(path.name for path in source.glob("*.py")) or ["code from the hub"]


def ready(source: Path) -> None:
    """Import transformers' modules for the kinds that a config names, but no code of the model's
    own: what this process has imported, its ranks have."""
    told = (source / "config.json").read_text("utf-8")
    kinds = dict.fromkeys(re.findall(r'"model_type": *"(\w+)"', told))
    for kind, part in itertools.product(kinds, _MODULES):
        with contextlib.suppress(Exception):
            importlib.import_module(f"transformers.models.{kind}.{part}_{kind}")


_MODULES = ("configuration", "modeling", "processing", "image_processing", "video_processing",
            "feature_extraction", "image_processing_pil")  # fmt: skip


def make(source: Path, out: Path, layers: int = MOST_LAYERS) -> dict[str, Any]:
    """Write the tiny checkpoint into ``out``, with at most so many layers of each stack.

    Returns:
        Its class and module, its number of weights, and that of the full size (0 where not
        counted).

    Raises whatever the class raises for its shrunk config.
    """
    import torch
    import transformers

    out.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        known = not file.name.endswith(_WEIGHTS) and file.name != "config.json"
        if known and file.is_file() and file.stat().st_size < LARGEST:
            shutil.copy(file, out)
    config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=True)
    tiny = shrink(config, layers, inputs=False).config
    for part in parts_of(tiny):
        _certain(vars(part))
    torch.manual_seed(0)
    model = _build(transformers, tiny).to(torch.float32)
    count = sum(weight.numel() for weight in model.parameters())
    _audible(torch, model)
    model.save_pretrained(out)
    published.turn(model, out)
    kind = type(model)
    return {"class": kind.__name__, "module": kind.__module__, "weights": count,
            "full": _full(torch, config)}  # fmt: skip


def _certain(own: dict[str, Any]) -> None:
    """Nothing is dropped at random: two runs of the same rows are to be equal."""
    for key, value in own.items():
        if re.search(r"drop(out|_path|_rate)|_pdrop$", key) and isinstance(value, float):
            own[key] = 0.0


def _build(transformers: Any, config: Any) -> Any:
    """As transformers does without a checkpoint."""
    for name in config.architectures or ():
        kind = getattr(transformers, name, None)
        if kind is not None:
            return kind(config)
    failed: Exception | None = None
    for auto in ("AutoModelForImageTextToText", "AutoModelForCausalLM", "AutoModel"):
        try:
            return getattr(transformers, auto).from_config(config, trust_remote_code=True)
        except (AttributeError, ValueError, KeyError) as error:
            failed = failed or error
    raise failed or ValueError("no class is known for this config")


def _audible(torch: Any, model: Any) -> None:
    """Weights large enough to say something; what begins at zero, and gates that begin shut, are
    as after some training: behind them nothing would have a gradient."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and not weight.any():
                weight.normal_(std=QUIET)
            elif weight.dim() > 1 and weight.std() < QUIET:
                weight.mul_(LOUDER)
            elif "gate" in name and weight.dim() == 1 and not weight.any():
                weight.fill_(0.5)


def _full(torch: Any, config: Any) -> int:
    """Weights at full size, counted without memory."""
    import transformers

    try:
        with torch.device("meta"):
            return sum(weight.numel() for weight in _build(transformers, config).parameters())
    except Exception:
        return 0
