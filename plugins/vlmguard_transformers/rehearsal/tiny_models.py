"""``from_pretrained`` of a user's own script gives the tiny copy of the model that it names.

Configs are the tiny copy's, too, so that layers which the script builds beside a model fit it.
Tokenizers and processors are the real ones.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from vlmguard.rehearse.fixture import NotHere
from vlmguard_transformers.rehearsal import shrunk

_LEFT_OUT = ("device_map", "max_memory", "offload_folder", "offload_state_dict")
_QUANTISED = ("quantization_config", "load_in_4bit", "load_in_8bit")
_DTYPES = ("dtype", "torch_dtype")
_TOLD = "tiny.json"


class Tiny:
    """The tiny copies of one rehearsal.

    Attributes:
        folder: where they lie.
        makes: whether one that is missing is made; ranks only find them.
        layers: of each stack, at most.
        notes: what was replaced.
        limits: what was left out and may change the training.
        met: real folder → what `shrunk.make` said of its copy.
    """

    def __init__(self, folder: Path, makes: bool, layers: int) -> None:
        self.folder, self.makes, self.layers = folder, makes, layers
        self.notes: list[str] = []
        self.limits: list[str] = []
        self.met: dict[str, dict[str, Any]] = {}
        self.busy = False

    def of(self, name: Any) -> str | None:
        """The tiny copy's folder; None for what is no model on this disk.

        Raises whatever its class raises for a shrunk config.
        """
        source = None if self.busy else home(name)
        if source is None or Path(source).is_relative_to(self.folder):
            return None
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        out = self.folder / digest / (os.path.basename(str(name).rstrip("/")) or "model")
        told = out.parent / _TOLD
        if not told.exists():
            if not self.makes:
                raise NotHere(f"{name} is loaded by some ranks only")
            self._make(Path(source), out)
        self.met[source] = json.loads(told.read_text("utf-8"))
        return str(out)

    def _make(self, source: Path, out: Path) -> None:
        import torch

        self.busy = True
        state = torch.get_rng_state()
        try:
            made = shrunk.make(source, out, self.layers)
        finally:
            self.busy = False
            torch.set_rng_state(state)
        (out.parent / _TOLD).write_text(json.dumps(made), "utf-8")

    def arguments(self, named: dict[str, Any]) -> dict[str, Any]:
        """Those of ``from_pretrained`` that a CPU can do."""
        kept = {name: value for name, value in named.items()
                if name not in (*_LEFT_OUT, *_QUANTISED, *_DTYPES)}  # fmt: skip
        if any(named.get(name) for name in _QUANTISED):
            self.limits.append("quantised weights: the tiny copy's are in float32")
        attention = str(named.get("attn_implementation") or "")
        if "flash" in attention or "/" in attention:
            self.notes.append(f"attn_implementation {attention}: sdpa")
            kept["attn_implementation"] = "sdpa"
        import torch
        import transformers
        from packaging.version import Version

        new = Version(transformers.__version__) >= Version("4.56")
        return {**kept, "dtype" if new else "torch_dtype": torch.float32}


def home(name: Any) -> str | None:
    """The folder of a model by its name: a folder, or a snapshot in the hub's cache."""
    if not isinstance(name, (str, os.PathLike)) or not str(name):
        return None
    path = os.fsdecode(name)
    if os.path.isdir(path):
        return os.path.realpath(path) if os.path.isfile(os.path.join(path, "config.json")) else None
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(path, "config.json")
    except Exception:
        return None
    return os.path.dirname(found) if isinstance(found, str) else None


def give(tiny: Tiny) -> None:
    """From now on, in this process."""
    import transformers
    from transformers import configuration_utils
    from transformers.models.auto import auto_factory

    config = getattr(configuration_utils, "PreTrainedConfig", None)
    config = config or configuration_utils.PretrainedConfig
    _wrap(config, "get_config_dict", tiny, loads=False)
    _wrap(auto_factory._BaseAutoModelClass, "from_pretrained", tiny, loads=True)
    _wrap(transformers.PreTrainedModel, "from_pretrained", tiny, loads=True)


def _wrap(owner: Any, name: str, tiny: Tiny, loads: bool) -> None:
    own = vars(owner)[name].__func__

    @functools.wraps(own)
    def instead(cls: Any, given: Any, *args: Any, **named: Any) -> Any:
        try:
            small = tiny.of(given)
        except NotHere:
            raise
        except Exception as error:
            if not loads:
                small = None
            else:
                told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                raise NotHere(f"{given}: its class could not be built small: {told}") from error
        if loads and not tiny.busy:
            if small is None and not os.path.isdir(given):
                raise NotHere(f"{given}: this model is not on this disk, and a rehearsal downloads "
                              "nothing")  # fmt: skip
            named = tiny.arguments(named)
        return own(cls, small or given, *args, **named)

    setattr(owner, name, classmethod(instead))
