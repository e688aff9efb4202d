"""Which modules see images, by the names that models give them: a booster takes any module."""

from __future__ import annotations

from typing import Any

from vlmguard_transformers.trainer import plain

_VISION = {
    "visual", "vision", "vision_tower", "vision_model", "vision_encoder", "visual_encoder",
    "image_encoder", "image_tower", "img_encoder", "image_model", "vit",
}  # fmt: skip
_ALIGNER = {
    "multi_modal_projector", "mm_projector", "merger", "projector", "vision_projector",
    "visual_projection", "image_projector", "connector", "aligner", "bridge", "mlp1",
}  # fmt: skip


def paths(model: Any) -> dict[str, tuple[str, ...]]:
    """Tower → module paths; {} where nothing looks like a vision tower."""
    found: dict[str, list[str]] = {"vision": [], "aligner": []}
    for name, _ in model.named_modules():
        bare = plain(name)
        last = bare.rsplit(".", 1)[-1]
        for kind, words in (("vision", _VISION), ("aligner", _ALIGNER)):
            inside = any(bare == path or bare.startswith(path + ".") for path in found[kind])
            if last in words and not inside:
                found[kind].append(bare)
    if not found["vision"]:
        return {}
    tops = {plain(name).split(".", 1)[0] for name, _ in model.named_parameters()}
    sees = {*found["vision"], *found["aligner"]}
    towers = {kind: tuple(dict.fromkeys(names)) for kind, names in found.items() if names}
    return {**towers, "llm": tuple(sorted(tops - sees))}
