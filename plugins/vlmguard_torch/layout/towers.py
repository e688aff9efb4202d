"""Which modules are towers, by the names that models give them: no registry of families."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

VISION = frozenset({
    "visual", "vision", "vision_tower", "vision_model", "vision_encoder", "visual_encoder",
    "visual_model", "visual_tokenizer", "vision_embed_tokens", "high_res_vision_model",
    "image_encoder", "image_tower", "image_model", "img_encoder", "video_tower", "video_encoder",
    "vit", "vqmodel", "vpm",
})  # fmt: skip
AUDIO = frozenset({
    "audio_tower", "audio_encoder", "audio_model", "audio", "speech_encoder", "speech_tower",
    "speech_model", "apm", "acoustic_tokenizer", "semantic_tokenizer", "acoustic_tokenizer_encoder",
    "semantic_tokenizer_encoder",
})  # fmt: skip
ALIGNER = frozenset({
    "multi_modal_projector", "mm_projector", "multimodal_projector", "multi_modal_adapter",
    "merger", "merger_list", "deepstack_merger_list", "projector", "vision_projector",
    "visual_projection", "vision_projection", "image_projector", "img_projector", "connector",
    "aligner", "align", "bridge", "modality_projection", "embed_vision", "embed_audio",
    "audio_projection_layer", "audio_projector", "mlp1", "qformer", "resampler", "resampler_model",
    "vision_resampler", "language_projection", "image_to_text_projection",
    "visual_embeddings_table",
})  # fmt: skip
_WORDS = {"vision": VISION, "audio": AUDIO, "aligner": ALIGNER}
_LANGUAGE = frozenset({"language_model", "text_model", "llm", "decoder", "lm_head", "talker"})
"""What lies below these sees no image, whatever it is called."""
_PREFIX = re.compile(r"^(module\.|_fsdp_wrapped_module\.|_orig_mod\.|base_model\.model\.)+")
_INSIDE = re.compile(
    r"\.(?:base_layer|modules_to_save\.[^.]+|original_module|_fsdp_wrapped_module"
    r"|_checkpoint_wrapped_module|_orig_mod)(?=\.|$)"
)


def plain(name: str) -> str:
    """A module's or parameter's name in the model as the user knows it: without what DDP,
    DeepSpeed, FSDP, torch.compile and PEFT put around it."""
    return _INSIDE.sub("", _PREFIX.sub("", name)).removeprefix("base_model.")


def modules(model: Any) -> dict[str, Any]:
    """Plain name → module; of several with one name the outermost, which is called."""
    named: dict[str, Any] = {}
    for name, module in model.named_modules():
        named.setdefault(plain(name), module)
    return named


def by_name(model: Any) -> dict[str, tuple[str, ...]]:
    """Kind ("vision", "audio", "aligner", "llm") → plain module paths; {} without a tower.

    A path that lies in another is listed where its kind is another (Qwen-VL's ``visual.merger`` is
    the aligner, inside vision); of one kind only the outermost. "llm" is what no other kind holds,
    by outermost paths.
    """
    towers = seeing(model)
    if not towers:
        return {}
    sees = [path for where in towers.values() for path in where]
    return {**towers, "llm": tuple(rest(model, sees))}


def seeing(model: Any) -> dict[str, tuple[str, ...]]:
    """The same without "llm": modules are looked at, no parameter is."""
    names = [plain(name) for name, _ in model.named_modules() if name]
    found: dict[str, list[str]] = {kind: [] for kind in _WORDS}
    for name in dict.fromkeys(names):
        kind = _kind(name)
        if kind and not any(_within(name, path) for path in found[kind]):
            found[kind].append(name)
    if not found["vision"] and not found["audio"]:
        return {}
    return {kind: tuple(where) for kind, where in found.items() if where}


def _kind(name: str) -> str | None:
    *above, last = name.split(".")
    if _LANGUAGE.intersection(above):
        return None
    return next((kind for kind, words in _WORDS.items() if last in words), None)


def _within(name: str, path: str) -> bool:
    return name == path or name.startswith(path + ".")


def rest(model: Any, sees: list[str]) -> Iterable[str]:
    """The outermost modules or parameters with weights that neither hold nor lie in ``sees``."""
    rest: dict[str, None] = {}
    for parameter, _ in model.named_parameters():
        name = plain(parameter)
        if any(_within(name, path) for path in sees):
            continue
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            if not any(_within(tower, path) for tower in sees):
                rest[path] = None
                break
    return rest


def kind_of(name: str, paths: Mapping[str, Iterable[str]]) -> str:
    """The tower that a plain name belongs to, by its longest path; "other" if none."""
    best, kind = -1, "other"
    for candidate, prefixes in paths.items():
        for prefix in prefixes:
            if _within(name, prefix) and len(prefix) > best:
                best, kind = len(prefix), candidate
    return kind


def without_adapters(model: Any) -> Any:
    """The model itself, without PEFT, DDP or a DeepSpeed engine around it."""
    while True:
        if hasattr(model, "get_base_model"):
            model = model.get_base_model()
        elif type(model).__name__ in WRAPPERS and hasattr(model, "module"):
            model = model.module
        else:
            return model


WRAPPERS = frozenset({
    "DistributedDataParallel", "DeepSpeedEngine", "FullyShardedDataParallel", "DataParallel",
})  # fmt: skip
