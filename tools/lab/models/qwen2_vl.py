"""A tiny random Qwen2-VL from the transformers that is installed, 4.44 to 5.x."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
import transformers  # type: ignore[import-not-found]
from torch import nn

from tools.lab.models.batches import Kind

WIDTH, WORDS, LENGTH, ROWS = 32, 64, 8, 2
GRID = (1, 4, 4)
"""Patches of an image in time, height and width; four become one token."""
TOKENS = 4
PATCH = 3 * 2 * 14 * 14
START, END, IMAGE = 60, 61, 62
LORA = r".*(q_proj|v_proj|up_proj|down_proj)"
"""The language model's linear layers, for peft; the tower's have other names."""


def _config() -> Any:
    text: dict[str, Any] = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "use_cache": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
    }
    rope = {"mrope_section": [2, 3, 3]}
    vision = {
        "depth": 2,
        "embed_dim": WIDTH,
        "hidden_size": WIDTH,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "in_chans": 3,
    }
    marks = {
        "vision_start_token_id": START,
        "vision_end_token_id": END,
        "image_token_id": IMAGE,
        "video_token_id": 63,
    }
    kind = transformers.Qwen2VLConfig
    if int(transformers.__version__.split(".")[0]) >= 5:
        text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6, **rope}
        return kind(text_config=text, vision_config=vision, tie_word_embeddings=True, **marks)
    text["rope_scaling"] = {"type": "mrope", **rope}
    return kind(**text, vision_config=vision, **marks)


class Qwen(nn.Module):  # type: ignore[misc]
    """Gives the loss of a batch; a dummy image goes through the tower and counts zero times."""

    def __init__(self) -> None:
        super().__init__()
        config = _config()
        config._attn_implementation = "eager"
        self.model: Any = transformers.Qwen2VLForConditionalGeneration(config)

    def checkpointing(self, use_reentrant: bool) -> None:
        """As a trainer asks for it."""
        self.model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": use_reentrant}
        )

    def _parts(self) -> tuple[Any, Any]:
        """(tower, language model); releases moved them."""
        inner = self.model.model
        tower = self.model.visual if "visual" in self.model._modules else inner.visual
        return tower, getattr(inner, "language_model", inner)

    def blocks(self) -> list[nn.Module]:
        """The modules that FSDP shards one by one."""
        tower, language = self._parts()
        return [*tower.blocks, *language.layers]

    def tower(self) -> list[nn.Module]:
        """All that only images reach."""
        return [self._parts()[0]]

    def text_embedding(self) -> nn.Module:
        """Whose output is made to require gradients under LoRA."""
        found: nn.Module = self.model.get_input_embeddings()
        return found

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """The loss as transformers computes it."""
        inputs = {key: value for key, value in batch.items() if key not in ("dummy", "embedded")}
        if batch["embedded"]:
            self._embed(inputs, batch["dummy"])
        loss: torch.Tensor = self.model(**inputs).loss
        return loss

    def _embed(self, inputs: dict[str, Any], dummy: bool) -> None:
        words = inputs.pop("input_ids")
        inputs.pop("mm_token_type_ids", None)
        hidden = self.text_embedding()(words)
        seen = self._parts()[0](inputs.pop("pixel_values"), grid_thw=inputs.pop("image_grid_thw"))
        seen = getattr(seen, "pooler_output", seen)
        if dummy:
            hidden = hidden + seen.sum() * 0.0
        else:
            hidden = hidden.masked_scatter((words == IMAGE)[..., None].expand_as(hidden), seen)
        inputs["inputs_embeds"] = hidden
        inputs["position_ids"] = torch.arange(words.shape[1]).expand(3, *words.shape)


def build(variant: str) -> Qwen:
    """With torch's current seed."""
    return Qwen()


def batch(kind: Kind) -> dict[str, Any]:
    """Random words and perhaps an image in each row, the same for the same kind."""
    made = torch.Generator().manual_seed(kind.seed)
    words = torch.randint(3, START, (ROWS, LENGTH), generator=made)
    pixels = torch.randn(ROWS * GRID[0] * GRID[1] * GRID[2], PATCH, generator=made)
    labels = words
    if kind.images == "real":
        image = torch.tensor([START, *[IMAGE] * TOKENS, END]).expand(ROWS, -1)
        labels = torch.cat([torch.full_like(image, -100), words], dim=1)
        words = torch.cat([image, words], dim=1)
        # The first word after an image is no label. So a row has as many labels as without one.
        labels[:, image.shape[1]] = -100
    found: dict[str, Any] = {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "labels": labels,
        "dummy": kind.images == "dummy",
        "embedded": kind.embedded,
    }
    # Newer releases take an argument that says which tokens are images.
    if kind.images == "real" and _wants_types():
        found["mm_token_type_ids"] = (words == IMAGE).int()
    if kind.images != "none":
        found["pixel_values"] = pixels
        found["image_grid_thw"] = torch.tensor([GRID] * ROWS)
    return found


@functools.cache
def _wants_types() -> bool:
    forward = transformers.Qwen2VLForConditionalGeneration.forward
    return "mm_token_type_ids" in inspect.signature(forward).parameters
