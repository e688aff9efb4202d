"""What ms-swift's registry of architectures says of a model."""

from __future__ import annotations

from typing import Any

from vlmguard_torch.layout import towers as by_name

_KINDS = {"vision": "vision_tower", "aligner": "aligner", "llm": "language_model",
          "generator": "generator"}  # fmt: skip


def arch(model: Any) -> Any:
    """ms-swift's ``MultiModelKeys`` of the model; None for a text model."""
    meta = getattr(model, "model_meta", None)
    found = getattr(meta, "model_arch", None)
    if isinstance(found, str):  # ms-swift 3.x keeps the name
        from swift.llm.model.model_arch import get_model_arch

        found = get_model_arch(found)
    return found if getattr(meta, "is_multimodal", False) else None


def towers(model: Any) -> dict[str, tuple[str, ...]]:
    """Tower → module paths; what the registry calls a vision tower and is an audio one by its name
    is told apart."""
    keys = arch(model)
    if keys is None:
        return {}
    found = {kind: tuple(getattr(keys, name, None) or ()) for kind, name in _KINDS.items()}
    hears = tuple(path for path in found["vision"] if path.rsplit(".", 1)[-1] in by_name.AUDIO)
    if hears:
        found["vision"] = tuple(path for path in found["vision"] if path not in hears)
        found["audio"] = hears
    return found


def input_grads(model: Any, kind: str) -> bool | None:
    """ms-swift asks for input gradients on every tower; one that shows no input embeddings raises
    or warns (by release of transformers), which is only logged."""
    if kind != "vision":
        return None
    found = [_deep(model, path) for path in towers(model).get("vision", ())]
    return None if all(each is None or _shows_embeddings(each) for each in found) else False


def _shows_embeddings(tower: Any) -> bool:
    """Whether transformers can hang its hook on this tower, or on a model inside it."""
    for module in tower.modules():
        if hasattr(module, "enable_input_require_grads"):
            try:
                if hasattr(module.get_input_embeddings(), "register_forward_hook"):
                    return True
            except NotImplementedError:
                continue
    return False


def _deep(model: Any, path: str) -> Any:
    inner = getattr(getattr(model, "base_model", None), "model", None)
    for root in (model, inner):
        found = root
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None
