"""Tiny models of transformers that take an image in a way of their own, and what encodes for them
as their processors do, offline."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH, SIDE = 32, 28
TEXT = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
}
VISION = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 14,
}


def _ids() -> tuple[int, int, int]:
    """Size of the vocabulary, the image token, the padding."""
    import models

    return models.VOCAB, models.IDS["<image>"], models.IDS["<|endoftext|>"]


def idefics3() -> nn.Module:
    """Images of zeros are padding to it, and are dropped."""
    import transformers as hf

    vocabulary, image, pad = _ids()
    config = hf.Idefics3Config(
        vision_config=VISION,
        text_config={**TEXT, "model_type": "llama", "vocab_size": vocabulary, "pad_token_id": pad},
        image_token_id=image,
        scale_factor=2,
        pad_token_id=pad,
    )
    return hf.Idefics3ForConditionalGeneration(config)


def idefics2() -> nn.Module:
    """Its connector wants more than what its tower says: the parts alone do not tell how an image
    goes in."""
    import transformers as hf

    vocabulary, image, pad = _ids()
    text = {**TEXT, "model_type": "mistral", "vocab_size": vocabulary, "pad_token_id": pad}
    resampler = {"hidden_size": WIDTH, "resampler_n_latents": 1,
                 "resampler_depth": 1, "resampler_n_heads": 2, "resampler_head_dim": 16,
                 "num_key_value_heads": 1}  # fmt: skip
    config = hf.Idefics2Config(
        vision_config=VISION, text_config=text, perceiver_config=resampler, image_token_id=image
    )
    return hf.Idefics2ForConditionalGeneration(config)


def mllama() -> nn.Module:
    """Text reads the image through layers of its own."""
    import transformers as hf

    vocabulary, image, pad = _ids()
    rope = {"rope_type": "default"}
    text = {**TEXT, "vocab_size": vocabulary, "cross_attention_layers": [1], "pad_token_id": pad}
    config = hf.MllamaConfig(
        vision_config={
            "hidden_size": WIDTH, "attention_heads": 2, "num_hidden_layers": 2,
            "num_global_layers": 1, "intermediate_size": 64, "image_size": SIDE, "patch_size": 14,
            "vision_output_dim": WIDTH * 2, "intermediate_layers_indices": [0],
            "supported_aspect_ratios": [[1, 1]], "max_num_tiles": 1,
        },
        text_config={**text, "rope_scaling": rope},
        image_token_index=image,
    )  # fmt: skip
    return hf.MllamaForConditionalGeneration(config)


class _Processor:
    """One image at most a row; `image_tokens` placeholders stand for it."""

    image_token = "<image>"
    image_tokens = 4
    chat_template = None

    def __init__(self) -> None:
        import models

        self.tokenizer = models._tokenizer("<image>")
        self.image_token_id = models.IDS["<image>"]

    def __call__(self, text: Any, images: Any = None, **_: Any) -> dict[str, torch.Tensor]:
        import numpy

        rows = [text] if isinstance(text, str) else list(text)
        shown = [self.image_token in row for row in rows]
        rows = [row.replace(self.image_token, self.image_token * self.image_tokens) for row in rows]
        out = dict(self.tokenizer(rows, return_tensors="pt", padding=True))
        out = {name: out[name] for name in ("input_ids", "attention_mask")}
        if images is not None:
            small = [numpy.asarray(image.convert("RGB").resize((SIDE, SIDE))) for image in images]
            pixels = torch.stack([torch.tensor(each) for each in small]).permute(0, 3, 1, 2)
            out |= self.visual(pixels.float() / 127.5 - 1, shown)
        return out | self.along(out)

    def visual(self, pixels: torch.Tensor, shown: list[bool]) -> dict[str, torch.Tensor]:
        return {"pixel_values": pixels}

    def along(self, out: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {}


class IdeficsProcessor(_Processor):
    image_tokens = 1

    def visual(self, pixels: torch.Tensor, shown: list[bool]) -> dict[str, torch.Tensor]:
        """(rows, images, channels, height, width); zeros in a row without one."""
        whole = torch.zeros(len(shown), 1, *pixels.shape[1:])
        whole[torch.tensor(shown)] = pixels[:, None]
        return {"pixel_values": whole}


class MllamaProcessor(_Processor):
    image_tokens = 1

    def visual(self, pixels: torch.Tensor, shown: list[bool]) -> dict[str, torch.Tensor]:
        whole = torch.zeros(len(shown), 1, 1, *pixels.shape[1:])
        whole[torch.tensor(shown)] = pixels[:, None, None]
        one = torch.ones(len(shown), 1, dtype=torch.long)
        return {"pixel_values": whole, "aspect_ratio_ids": one, "aspect_ratio_mask": one[..., None]}

    def along(self, out: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if "pixel_values" not in out:
            return {}
        seen = out["aspect_ratio_mask"][:, None] * (out["attention_mask"][..., None, None])
        return {"cross_attention_mask": seen}
