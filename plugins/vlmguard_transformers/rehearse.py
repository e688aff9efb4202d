"""Rehearsing a user's own script around ``transformers.Trainer``: the script itself, in a rank.

`vlmguard.rehearse.own_script` says which scripts these are, and what is run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.request import Request
from vlmguard_transformers.rehearsal import cpu_flags
from vlmguard_transformers.rehearsal.shrunk import ready as ready

NAME = "transformers"
OWN_SCRIPT = True
_KNOWN = ("trl", "datasets", "PIL", "torchvision", "qwen_vl_utils", "peft", "accelerate", "einops",
          "timm", "decord", "pandas", "sklearn", "evaluate", "wandb")  # fmt: skip
"""Packages that a script may import, and that are imported once for all its ranks."""


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    from vlmguard_transformers.rehearsal import in_rank

    in_rank.load("vlmguard_transformers.profile", "vlmguard_transformers.rehearsal.own_script",
                 "vlmguard_transformers.rehearsal.books", "transformers.hf_argparser",
                 "huggingface_hub", "accelerate.data_loader")  # fmt: skip


def imports(names: Sequence[str]) -> None:
    """What this script imports, as far as it is well known: no code of the user's own."""
    for name in names:
        if name in _KNOWN:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    if "trl" in names:
        for kind in ("sft", "dpo", "kto", "reward"):
            with contextlib.suppress(Exception):
                importlib.import_module(f"trl.trainer.{kind}_trainer")
        with contextlib.suppress(Exception):
            importlib.import_module("vlmguard_trl.profile")


def wrapper(request: Request, shrunk: float) -> dict[str, str]:
    """Variables by which ``accelerate launch`` says how the model is wrapped."""
    return cpu_flags.strategy(Argv([]), request, shrunk, cpu_flags.written)


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass, or of the look before them. ``scene.argv`` names a file."""
    from vlmguard_transformers.rehearsal import own_script

    spec: Mapping[str, Any] = json.loads(Path(scene.argv[0]).read_text("utf-8"))
    return own_script.Script(scene, spec).run()
