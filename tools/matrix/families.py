"""The matrix's sixteen classes and GLM-OCR, tiny: how a model of each is made and what a medium of
it looks like. Imported in an environment that has torch and transformers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from packaging.version import Version

from tests.kit import vlms
from tests.kit.vlms import IMAGE, TEXT, VIDEO

START, END = 302, 303
"""Around each medium, as the Qwen-VL family has it; to the others they are words."""
AUDIO = 304
Make = Callable[[torch.Generator], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Medium:
    """Attributes:
    make: what a processor would give for it, random.
    token, tokens: its placeholder, and how many of them.
    type: in mm_token_type_ids.
    along: the dimension along which two of them in one sample are put together.
    """

    make: Make
    tokens: int
    token: int = IMAGE
    type: int = 1
    along: int = 0


@dataclass(frozen=True)
class Family:
    """Attributes:
    made: the name of the class.
    one, two: the media of a sample with one, with two; image and video where the class takes
        videos, else two of the same.
    """

    name: str
    made: str
    config: Callable[[], Any]
    one: tuple[Medium, ...]
    two: tuple[Medium, ...] = ()

    def model(self) -> Any:
        """In training mode, weights loud enough to tell errors from rounding."""
        return vlms.Family(self.name, self.config, _nothing, self.made).model()


def _nothing(generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {}


OLD = Version(transformers.__version__) < Version("4.52")
"""Configs of the Qwen-VL family hold the language model's fields themselves."""


@functools.cache
def of(name: str) -> Any:
    """The family of that name, for the transformers at hand; of the zoo's classes theirs."""
    if name.startswith("zoo:"):
        from tools.zoo.family import Zoo

        return Zoo(name)
    return _glm_ocr() if name == "glm_ocr" else _all()[name]


def _flat(config: str, vision: dict[str, Any]) -> Callable[[], Any]:
    text = {**TEXT, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}
    text.pop("head_dim")
    ids = {**vlms._QWEN_IDS, "vision_token_id": 305}
    return lambda: getattr(transformers, config)(**text, **ids, vision_config=vision)


def _old_mllama() -> Any:
    config = vlms.FAMILIES["mllama"].config()
    config.text_config.rope_scaling = {"rope_type": "default"}
    return config


_EYE = {"depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 14, "in_chans": 3,
        "in_channels": 3}  # fmt: skip
_BEFORE = {
    "mllama": _old_mllama,
    "qwen2_vl": _flat("Qwen2VLConfig", {**_EYE, "embed_dim": 32, "mlp_ratio": 2}),
    "qwen2_5_vl": _flat("Qwen2_5_VLConfig", {**_EYE, "out_hidden_size": 32,
                        "intermediate_size": 64, "fullatt_block_indexes": [1]}),
}  # fmt: skip


def _glm4v() -> Any:
    text = {**TEXT, "rope_parameters": {**vlms._MROPE, "mrope_section": [2, 3, 3]}}
    text.pop("head_dim")
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64,
              "out_hidden_size": 32, "image_size": 56, "patch_size": 14}  # fmt: skip
    return transformers.Glm4vConfig(
        text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO,
        image_start_token_id=START, image_end_token_id=END, video_start_token_id=310,
        video_end_token_id=311,
    )  # fmt: skip


def _glm_ocr() -> Family:
    """No class of the matrix: it has runs of its own."""
    text = {**TEXT, "rope_parameters": {**vlms._MROPE, "mrope_section": [2, 3, 3]}}
    text.pop("head_dim")
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64,
              "out_hidden_size": 32, "image_size": 56, "patch_size": 14}  # fmt: skip
    image = Medium(_patches(14), 4)
    return Family(
        "glm_ocr", "GlmOcrForConditionalGeneration",
        lambda: transformers.GlmOcrConfig(
            text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO,
            image_start_token_id=START, image_end_token_id=END, video_start_token_id=310,
            video_end_token_id=311,
        ), (image,), (image, image),
    )  # fmt: skip


def _mistral3() -> Any:
    vision = {"model_type": "pixtral", "hidden_size": 32, "intermediate_size": 64, "head_dim": 16,
              "num_attention_heads": 2, "num_hidden_layers": 2, "image_size": 56,
              "patch_size": 14}  # fmt: skip
    return transformers.Mistral3Config(
        vision_config=vision, text_config={"model_type": "mistral", **TEXT},
        image_token_index=IMAGE, image_token_id=IMAGE, spatial_merge_size=2,
    )  # fmt: skip


def _qwen2_audio() -> Any:
    audio = {"model_type": "qwen2_audio_encoder", "num_mel_bins": 8, "encoder_layers": 2,
             "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "d_model": 32,
             "max_source_positions": 24}  # fmt: skip
    text = {"model_type": "qwen2", **TEXT}
    text.pop("head_dim")
    return transformers.Qwen2AudioConfig(
        audio_config=audio, text_config=text, audio_token_index=AUDIO
    )


def _sound(generator: torch.Generator) -> dict[str, torch.Tensor]:
    sound = torch.randn((1, 8, 48), generator=generator)
    return {"input_features": sound, "feature_attention_mask": torch.ones(1, 48).long()}


def _patches(patch: int, key: str = "pixel_values", grid: str = "image_grid_thw") -> Make:
    """Sixteen patches: a grid of four by four, four tokens behind the merger."""

    def make(generator: torch.Generator) -> dict[str, torch.Tensor]:
        pixels = torch.randn((16, 3 * 2 * patch**2), generator=generator)
        return {key: pixels, grid: torch.tensor([[1, 4, 4]])}

    return make


def _like(name: str) -> Make:
    return vlms.FAMILIES[name].image


def _qwen(name: str, patch: int) -> Family:
    image = Medium(_patches(patch), 4)
    video = Medium(_patches(patch, "pixel_values_videos", "video_grid_thw"), 4, VIDEO, 2)
    return _family(name, (image,), (image, video))


def _strip(key: str, sizes: str) -> Make:
    """MiniCPM-V's patches side by side."""

    def make(generator: torch.Generator) -> dict[str, torch.Tensor]:
        pixels = torch.randn((1, 3, 14, 14 * 64), generator=generator)
        return {key: pixels, sizes: torch.tensor([[8, 8]])}

    return make


def _minicpm() -> Family:
    image = Medium(_strip("pixel_values", "target_sizes"), 4, along=-1)
    video = Medium(_strip("pixel_values_videos", "target_sizes_videos"), 4, VIDEO, 2)
    return _family("minicpmv4_6", (image,), (image, video))


def _frames(generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"pixel_values_videos": torch.randn((1, 2, 3, 28, 28), generator=generator)}


def _pixtral(generator: torch.Generator) -> dict[str, torch.Tensor]:
    pixels = torch.randn((1, 3, 56, 56), generator=generator)
    return {"pixel_values": pixels, "image_sizes": torch.tensor([[56, 56]])}


def _family(name: str, one: tuple[Medium, ...], two: tuple[Medium, ...]) -> Family:
    known = vlms.FAMILIES[name]
    config = _BEFORE.get(name, known.config) if OLD else known.config
    return Family(name, known.made, config, one, two)


def _twice(name: str, tokens: int, **more: Any) -> Family:
    medium = Medium(_like(name), tokens, **more)
    return _family(name, (medium,), (medium, medium))


def _all() -> dict[str, Family]:
    image = Medium(_like("llava_onevision"), 14)
    onevision = _family("llava_onevision", (image,), (image, Medium(_frames, 3, VIDEO, 2)))
    glm, pixtral = Medium(_patches(14), 4), Medium(_pixtral, 4)
    sound = Medium(_sound, 12, AUDIO, 3)
    found = [
        _qwen("qwen2_vl", 14),
        _qwen("qwen2_5_vl", 14),
        _qwen("qwen3_vl", 16),
        _qwen("qwen3_5", 16),
        _twice("internvl", 1),
        _twice("llava", 4),
        _twice("llava_next", 14),
        onevision,
        _twice("gemma3", 4),
        _twice("paligemma", 4),
        _twice("idefics3", 4, along=1),
        _twice("mllama", 1, along=1),
        Family("glm4v", "Glm4vForConditionalGeneration", _glm4v, (glm,), (glm, glm)),
        _minicpm(),
        Family("mistral3", "Mistral3ForConditionalGeneration", _mistral3, (pixtral,),
               (pixtral, pixtral)),
        Family("qwen2_audio", "Qwen2AudioForConditionalGeneration", _qwen2_audio, (sound,),
               (sound, sound)),
    ]  # fmt: skip
    return {family.name: family for family in found}
