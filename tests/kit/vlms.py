"""Tiny random vision-language models of real classes, and rows for them: no checkpoint, no
processor. Imported in an environment that has torch and transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

LENGTH = 24
"""Tokens of a row."""
IMAGE, VIDEO = 300, 301
"""Placeholder tokens, below the vocabulary's end."""
VOCABULARY = 320
_SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
TEXT = {
    **_SIZES,
    **_HEADS,
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_SEEING = {**_SIZES, "num_attention_heads": 2}
_QWEN_IDS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": 302,
    "vision_end_token_id": 303,
}
_MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}


@dataclass(frozen=True)
class Family:
    """A class and how a row with an image looks.

    image: rows' generator → what the processor would give for one image, random pixels.
    """

    name: str
    config: Callable[[], Any]
    image: Callable[[torch.Generator], dict[str, torch.Tensor]]
    made: str = ""

    def model(self) -> Any:
        """In training mode, weights loud enough to tell errors from rounding."""
        torch.manual_seed(0)
        model = getattr(transformers, self.made)(self.config())
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1 and not parameter.any():  # Gemma3's projector
                    parameter.normal_(0, 0.1)
                if parameter.dim() > 1 and 0 < parameter.std() < 0.06:
                    parameter.mul_(4)
                if parameter.numel() == 1:  # Mllama's gates start at 0
                    parameter.fill_(0.5)
        return model.train()


def row(family: Family, model: Any, seed: int, image: bool) -> dict[str, torch.Tensor]:
    """One sample: input_ids (1, LENGTH), labels -100 on placeholders, and an image's tensors."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 290, (1, LENGTH), generator=generator)
    told: dict[str, torch.Tensor] = {}
    if image:
        told = family.image(generator)
        number = _tokens(family, model, told)
        ids[0, 2 : 2 + number] = IMAGE
    told |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    known = inspect.signature(type(model).forward).parameters
    kinds = (ids == IMAGE).long()
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in known:
            told[name] = kinds
    told["labels"] = ids.masked_fill(ids == IMAGE, -100)
    if family.name == "mllama" and image:
        told["cross_attention_mask"] = torch.ones(1, LENGTH, 1, 1, dtype=torch.long)
    return told


_counted: dict[str, int] = {}


def _tokens(family: Family, model: Any, told: dict[str, torch.Tensor]) -> int:
    """How many placeholders this image takes, by the model itself, once."""
    if family.name == "mllama":
        return 1
    if family.name not in _counted:
        from vlmguard_torch import zero_contribution
        from vlmguard_torch.layout import model_layout
        from vlmguard_torch.media import blank_media

        owner = model_layout.find(family.model()).owner
        with torch.no_grad():
            output = owner.get_image_features(**blank_media.fit(owner, "image", told))
        found = getattr(output, "pooler_output", output)
        found = output.last_hidden_state if found is None else found  # Llama4's, not projected
        pooled = list(zero_contribution.tensors(found))
        _counted[family.name] = sum(each.numel() for each in pooled) // 32
    return _counted[family.name]


def _pixels(*shape: int) -> Callable[[torch.Generator], dict[str, torch.Tensor]]:
    return lambda generator: {"pixel_values": torch.randn(shape, generator=generator)}


def _with(make: Any, **more: Any) -> Callable[[torch.Generator], dict[str, torch.Tensor]]:
    return lambda generator: {**make(generator), **{k: torch.tensor(v) for k, v in more.items()}}


def _qwen(patch: int, side: int = 4) -> Callable[[torch.Generator], dict[str, torch.Tensor]]:
    return _with(_pixels(side * side, 3 * 2 * patch**2), image_grid_thw=[[1, side, side]])


def _clip(layers: int = 3) -> dict[str, Any]:
    seeing = {**_SEEING, "num_hidden_layers": layers, "image_size": 28, "patch_size": 14}
    return {"model_type": "clip_vision_model", "projection_dim": 32, **seeing}


def _siglip(**more: Any) -> dict[str, Any]:
    seeing = {**_SEEING, "image_size": 28, "patch_size": 14, "vision_use_head": False}
    return {"model_type": "siglip_vision_model", **seeing, **more}


def _qwen2_vl() -> Any:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 14,
              "mlp_ratio": 2}  # fmt: skip
    text = {**TEXT, "rope_parameters": _MROPE}
    text.pop("head_dim")
    text["rope_parameters"] = {**_MROPE, "mrope_section": [2, 3, 3]}
    return transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **_QWEN_IDS)


def _qwen2_5_vl() -> Any:
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2,
              "intermediate_size": 64, "patch_size": 14, "fullatt_block_indexes": [1]}  # fmt: skip
    text = {**TEXT, "rope_parameters": _MROPE}
    text.pop("head_dim")
    return transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **_QWEN_IDS)


_SEEING_3 = {"depth": 3, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2,
             "intermediate_size": 64, "patch_size": 16, "num_position_embeddings": 64,
             "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3}  # fmt: skip


def _qwen3_vl() -> Any:
    text = {**TEXT, "rope_parameters": {**_MROPE, "mrope_interleaved": True}}
    vision = {**_SEEING_3, "deepstack_visual_indexes": [0, 1]}
    return transformers.Qwen3VLConfig(text_config=text, vision_config=vision, **_QWEN_IDS)


_MIXED = {
    **TEXT,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "rope_parameters": {**_MROPE, "mrope_section": [2, 1, 1], "mrope_interleaved": True,
                        "partial_rotary_factor": 0.5},
}  # fmt: skip


def _qwen3_5() -> Any:
    return transformers.Qwen3_5Config(text_config=_MIXED, vision_config=_SEEING_3, **_QWEN_IDS)


def _minicpm() -> Any:
    vision = {**_SEEING, "num_hidden_layers": 3, "image_size": 224, "patch_size": 14}
    ids = {"image_token_id": IMAGE, "video_token_id": VIDEO}
    text = {"model_type": "qwen3_5_text", **_MIXED}
    return transformers.MiniCPMV4_6Config(
        text_config=text, vision_config=vision, insert_layer_id=0, **ids
    )


def _llama(**more: Any) -> dict[str, Any]:
    return {"model_type": "llama", **TEXT, **more}


def _llava() -> Any:
    return transformers.LlavaConfig(
        vision_config=_clip(), text_config=_llama(), image_token_index=IMAGE, image_token_id=IMAGE,
        image_seq_length=4,
    )  # fmt: skip


def _llava_next() -> Any:
    return transformers.LlavaNextConfig(
        vision_config=_clip(), text_config=_llama(), image_token_index=IMAGE, image_token_id=IMAGE,
        image_grid_pinpoints=[[28, 56], [56, 28], [56, 56]],
    )  # fmt: skip


def _llava_onevision() -> Any:
    return transformers.LlavaOnevisionConfig(
        vision_config=_siglip(), text_config={"model_type": "qwen2", **TEXT},
        image_token_index=IMAGE, image_token_id=IMAGE, video_token_index=VIDEO,
        video_token_id=VIDEO, image_grid_pinpoints=[[28, 56], [56, 28], [56, 56]],
        vision_feature_select_strategy="full", vision_feature_layer=-1,
    )  # fmt: skip


def _gemma3() -> Any:
    text = {**TEXT, "model_type": "gemma3_text", "sliding_window": 16,
            "query_pre_attn_scalar": 16}  # fmt: skip
    return transformers.Gemma3Config(
        text_config=text, vision_config=_siglip(), mm_tokens_per_image=4,
        image_token_index=IMAGE, image_token_id=IMAGE,
    )  # fmt: skip


def _paligemma() -> Any:
    return transformers.PaliGemmaConfig(
        vision_config=_siglip(projection_dim=32), text_config={"model_type": "gemma", **TEXT},
        image_token_index=IMAGE, image_token_id=IMAGE, projection_dim=32, hidden_size=32,
    )  # fmt: skip


def _idefics3() -> Any:
    vision = {**_SEEING, "image_size": 56, "patch_size": 14}
    return transformers.Idefics3Config(
        vision_config=vision, text_config=_llama(), image_token_id=IMAGE, scale_factor=2
    )


def _internvl() -> Any:
    vision = {**_SEEING, "image_size": [28, 28], "patch_size": [14, 14]}
    return transformers.InternVLConfig(
        vision_config={"model_type": "internvl_vision", **vision}, image_token_id=IMAGE,
        text_config={"model_type": "qwen2", **TEXT}, image_seq_length=1,
    )  # fmt: skip


def _mllama() -> Any:
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_global_layers": 1, "attention_heads": 2, "image_size": 28, "patch_size": 14,
              "vision_output_dim": 96, "intermediate_layers_indices": [0, 1], "max_num_tiles": 1,
              "supported_aspect_ratios": [[1, 1]]}  # fmt: skip
    text = {**TEXT, "num_hidden_layers": 3, "cross_attention_layers": [1]}
    text.pop("head_dim")
    return transformers.MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=IMAGE
    )


def _llama4() -> Any:
    vision = {**_SEEING, "intermediate_size": 128, "image_size": 28, "patch_size": 14,
              "projector_input_dim": 32, "projector_output_dim": 32,
              "vision_output_dim": 32}  # fmt: skip
    text = {**TEXT, "intermediate_size_mlp": 64, "num_local_experts": 2, "num_experts_per_tok": 1}
    return transformers.Llama4Config(
        vision_config=vision, text_config=text, image_token_index=IMAGE, image_token_id=IMAGE,
        boi_token_index=304, eoi_token_index=305,
    )  # fmt: skip


_MLLAMA = _with(_pixels(1, 1, 1, 3, 28, 28), aspect_ratio_ids=[[1]], aspect_ratio_mask=[[[1]]])

FAMILIES = {
    family.name: family
    for family in (
        Family("qwen2_vl", _qwen2_vl, _qwen(14), "Qwen2VLForConditionalGeneration"),
        Family("qwen2_5_vl", _qwen2_5_vl, _qwen(14), "Qwen2_5_VLForConditionalGeneration"),
        Family("qwen3_vl", _qwen3_vl, _qwen(16), "Qwen3VLForConditionalGeneration"),
        Family("qwen3_5", _qwen3_5, _qwen(16), "Qwen3_5ForConditionalGeneration"),
        Family(
            "minicpmv4_6", _minicpm,
            _with(_pixels(1, 3, 14, 14 * 64), target_sizes=[[8, 8]]),
            "MiniCPMV4_6ForConditionalGeneration",
        ),
        Family("llava", _llava, _pixels(1, 3, 28, 28), "LlavaForConditionalGeneration"),
        Family(
            "llava_next", _llava_next, _with(_pixels(1, 3, 3, 28, 28), image_sizes=[[28, 56]]),
            "LlavaNextForConditionalGeneration",
        ),
        Family(
            "llava_onevision", _llava_onevision,
            _with(_pixels(1, 3, 3, 28, 28), image_sizes=[[28, 56]]),
            "LlavaOnevisionForConditionalGeneration",
        ),
        Family("gemma3", _gemma3, _pixels(1, 3, 28, 28), "Gemma3ForConditionalGeneration"),
        Family("paligemma", _paligemma, _pixels(1, 3, 28, 28), "PaliGemmaForConditionalGeneration"),
        Family("idefics3", _idefics3, _pixels(1, 1, 3, 56, 56), "Idefics3ForConditionalGeneration"),
        Family("internvl", _internvl, _pixels(1, 3, 28, 28), "InternVLForConditionalGeneration"),
        Family("llama4", _llama4, _pixels(1, 3, 28, 28), "Llama4ForConditionalGeneration"),
        Family("mllama", _mllama, _MLLAMA, "MllamaForConditionalGeneration"),
    )
}  # fmt: skip
