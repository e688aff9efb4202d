"""What of a script's own classes decides how it is rehearsed: its model, callbacks, evaluation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vlmguard.rehearse.fixture import NotHere
from vlmguard_transformers.rehearsal import chosen_rows, in_rank

_FRAMEWORKS = ("transformers", "trl", "peft", "accelerate", "torch")
_GATHERS = re.compile(
    r"\ball_(?:gather|reduce|to_all)|reduce_scatter|Gather\w*Layer|get_world_size"
)
LARGEST = 200_000_000
"""Weights of a model that the script makes itself; more do not fit into a rank here."""
FEW = 8
"""Rows of an evaluation."""


def of_framework(kind: Any) -> bool:
    """Whether a class is no script's own."""
    return str(kind.__module__).partition(".")[0] in _FRAMEWORKS


def not_too_large(model: Any) -> None:
    """Raises `NotHere` for a model that no rank here can hold."""
    count = sum(in_rank._whole(each) for each in model.parameters())
    if count > LARGEST:
        raise NotHere(f"its model is made in its own code and has {count / 1e9:.1f} G weights: "
                      "too many for a rehearsal")  # fmt: skip


def rate(model: Any) -> float:
    """The learning rate of plain SGD: LoRA's first steps are small."""
    return 1.0 if any("lora_" in name for name, _ in model.named_parameters()) else 0.1


def forgotten(model: Any, held: Iterable[Any], limit: Callable[[str], None]) -> None:
    """Say which parameters train and are not held by the optimizer."""
    known = {id(each) for each in held}
    names = [name for name, each in model.named_parameters()
             if each.requires_grad and id(each) not in known]  # fmt: skip
    if names:
        limit(f"its own optimizer does not hold {len(names)} tensors that train, as {names[0]}")


def gathers(model: Any) -> list[str]:
    """Classes of the model that are the script's own and ask other ranks in their code."""
    kinds = {type(each) for each in model.modules() if not of_framework(type(each))}
    files = {kind.__name__: kind.forward.__code__.co_filename for kind in kinds
             if hasattr(getattr(kind, "forward", None), "__code__")}  # fmt: skip
    return [name for name, file in sorted(files.items()) if os.path.isfile(file)
            and _GATHERS.search(Path(file).read_text("utf-8", "replace"))]  # fmt: skip


def callbacks(trainer: Any) -> list[str]:
    """Those that are the script's own."""
    kinds = [type(each) for each in trainer.callback_handler.callbacks]
    return [kind.__name__ for kind in kinds if not of_framework(kind)]


def missing_metric(trainer: Any, given: Mapping[str, Any], limit: Callable[[str], None]) -> str:
    """Why its first evaluation will fail: it chooses by a metric that is not there. "" where it
    is, or where nobody knows. A few rows are evaluated in this one process."""
    strategy = given.get("eval_strategy", given.get("evaluation_strategy"))
    usual = "loss" if given.get("load_best_model_at_end") else None
    wanted = trainer.args.metric_for_best_model or usual
    rows = trainer.eval_dataset
    if not wanted or rows is None or str(getattr(strategy, "value", strategy) or "no") == "no":
        return ""
    try:
        found = trainer.evaluate(_few(rows))
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        limit(f"its evaluation could not be tried here: {told}")
        return ""
    name = wanted if wanted.startswith("eval_") else f"eval_{wanted}"
    if name in found:
        return ""
    return f"metric_for_best_model: {wanted} is not in what its evaluation gives: " + ", ".join(
        sorted(each for each in found if each.startswith("eval_"))
    )


def _few(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: _few(each) for name, each in rows.items()}
    count = FEW if chosen_rows.streamed(rows) else min(FEW, len(rows))
    return chosen_rows.chosen(rows, range(count))
