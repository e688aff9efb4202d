"""How a training is watched here, and what of it is kept: weights before and after, pages.

LEDGER says how: "off"; "guard", as a user has it. For a loop that no wrapper shows (one process,
FSDP1) a script calls `vlmguard.ledger.watch`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
import transformers

from tools.ledger import rows

TEXTS = ("text", "tied", "dropout", "softcap", "logit scale", "granite", "biased", "experts")
"""Families without a tower: their loops are not watched unless they ask for it."""
_kept: dict[str, Any] = {}


class Watches(transformers.TrainerCallback):  # type: ignore[misc]
    """Begins where a Trainer has wrapped its model."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None,
                       optimizer: Any = None, **_: Any) -> None:  # fmt: skip
        if self.run.live is not None:
            start(self.run, self.run.live.model_wrapped, optimizer)


def start(run: Any, model: Any, optimizer: Any) -> None:
    """The model and its optimizer are as they will train."""
    inner = unwrapped(model)
    _kept.setdefault("initial", weights(inner))
    _kept["run"] = run
    alone = run.strategy in ("single", "fsdp1") or run.family in TEXTS
    if os.environ.get("LEDGER") == "guard" and run.program == "loop" and alone:
        from vlmguard import ledger

        for each in getattr(optimizer, "optimizers", [optimizer]):
            ledger.watch(model, each, tokenizer=rows.tokenizer())


def end(model: Any) -> dict[str, Any]:
    """What is left of it: digests; updates in a file beside, by which runs are compared."""
    run = _kept.pop("run")
    if os.environ.get("LEDGER") == "guard":
        from vlmguard_torch.ledger import watcher

        for each in watcher.everyone():
            each.close()
    after, before = weights(unwrapped(model)), _kept.pop("initial")
    file = Path(run.folder) / f"weights.rank{run.rank}.pt"
    torch.save({"before": before, "after": after}, file)
    digests = {name: _digest(value) for name, value in after.items()}
    return {"weights": digests, "random": _digest(torch.get_rng_state())}


def unwrapped(model: Any) -> Any:
    """Without DDP or an engine around it."""
    while type(model).__name__ in ("DistributedDataParallel", "DeepSpeedEngine"):
        model = model.module
    return getattr(model, "_orig_mod", model)


def weights(model: Any) -> dict[str, torch.Tensor]:
    """All of the model's, whole, by plain name. A collective under ZeRO-3 and FSDP2."""
    import vlmguard_capture
    import vlmguard_train

    found = {}
    for name, parameter in model.named_parameters():
        with vlmguard_train._whole(parameter):
            found[vlmguard_capture.plain(name)] = vlmguard_capture.copy(
                vlmguard_train._full(parameter)
            )
    return found


def apart(folder: str, other: str, rank: int) -> dict[str, Any]:
    """How far this run's updates are from another's: relative size, tensors that differ."""
    ours, theirs = (torch.load(Path(f) / f"weights.rank{rank}.pt") for f in (folder, other))
    names = [name for name in theirs["after"] if name in ours["after"]
             and ours["after"][name].shape == theirs["after"][name].shape]  # fmt: skip
    off = total = 0.0
    differ = len(ours["after"].keys() ^ theirs["after"].keys())
    for name in names:
        update, wanted = (_update(each, name) for each in (ours, theirs))
        total += float(wanted.square().sum())
        off += float((update - wanted).square().sum())
        differ += bool((update - wanted).norm() > 1e-3 * wanted.norm() + 1e-12)
    size = (off / total) ** 0.5 if total else 0.0
    return {"differ": differ, "of": len(theirs["after"]), "size": size if size == size else None}


def _update(kept: Any, name: str) -> torch.Tensor:
    return kept["after"][name].double() - kept["before"].get(name, kept["after"][name]).double()


def _digest(tensor: torch.Tensor) -> str:
    flat = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(flat).hexdigest()[:12]
