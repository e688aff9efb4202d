"""Towers of a model whose modules have no name that tells: what lies beside its language model."""

from __future__ import annotations

from typing import Any

from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import model_layout, towers


def sees(model: Any) -> bool:
    """Whether it has a tower, by name or by where its modules are. A class of the user's own may
    raise anything where it is asked: then nothing is known of it."""
    if towers.seeing(model):
        return True
    try:
        return bool(unnamed(model))
    except Exception:
        return False


def unnamed(model: Any) -> dict[str, tuple[str, ...]]:
    """Towers of a model in which `towers.by_name` finds none, and which names features of an image
    or a sound (Granite Speech: ``encoder``): by where its modules are. {} for a text model."""
    base = towers.without_adapters(model)
    try:
        found = model_layout.find(base)
    except CannotBlank:
        return {}
    at = next((name for name, module in base.named_modules() if module is found.owner), "")
    above = f"{at}." if at else ""
    seen = {
        "vision": (*found.towers.get("image", ()), *found.towers.get("video", ())),
        "audio": found.towers.get("audio", ()),
    }
    placed = {
        kind: tuple(dict.fromkeys(above + path for path in where))
        for kind, where in seen.items()
        if where
    }
    sees = [path for where in placed.values() for path in where]
    return {**placed, "llm": tuple(towers.rest(model, sees))} if placed else {}
