"""Small models with the ways of real ones, for tests of plain torch: no transformers needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn


class Config:
    """As transformers' are: fields, nested configs, ``to_dict``."""

    model_type = "toy"

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def to_dict(self) -> dict[str, Any]:
        return {
            key: value.to_dict() if isinstance(value, Config) else value
            for key, value in vars(self).items()
        }


def config(**changed: Any) -> Config:
    """A language model of 20 layers, a tower of 24 whose last is never used."""
    vision = {"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}
    fields = {
        "hidden_size": 4096, "num_hidden_layers": 20, "vocab_size": 1000, "image_token_id": 900,
        "vision_feature_layer": -2, "vision_config": Config(**vision), **changed,
    }  # fmt: skip
    return Config(**fields)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.linear(hidden)


def stack(config: Config) -> nn.ModuleList:
    return nn.ModuleList(Layer(config.hidden_size) for _ in range(config.num_hidden_layers))


class Tower(nn.Module):
    """All layers run, the features are taken before the last."""

    def __init__(self, config: Config, feature_layer: int) -> None:
        super().__init__()
        self.patch, self.feature_layer = config.patch_size, feature_layer
        self.embed = nn.Linear(3, config.hidden_size)
        self.layers = stack(config)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        patches = nn.functional.avg_pool2d(pixels, self.patch).flatten(2).transpose(1, 2)
        states = [self.embed(patches)]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return states[self.feature_layer]


class Toy(nn.Module):
    """Tower, aligner and language model, as LLaVA is put together.

    Attributes of the config that tests set: ``per_image`` (the tower runs once for each),
    ``cross_attention_layers`` (text rows pass over them), ``own_dummy`` (they run the tower too).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tower = Tower(config.vision_config, config.vision_feature_layer)
        self.aligner = nn.Linear(config.vision_config.hidden_size, config.hidden_size)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = stack(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        alone = getattr(self.config, "per_image", False)
        batches = pixel_values.split(1) if alone else [pixel_values]
        return self.aligner(torch.cat([self.tower(batch) for batch in batches])).flatten(0, 1)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> SimpleNamespace:
        hidden = self.words(input_ids)
        if pixel_values is not None:
            features = self.get_image_features(pixel_values)
            at = input_ids == self.config.image_token_id
            if int(at.sum()) != len(features):
                raise ValueError(f"tokens: {int(at.sum())}, features: {len(features)}")
            hidden = hidden.masked_scatter(at[..., None], features)
        elif getattr(self.config, "own_dummy", False):
            hidden = hidden + self.get_image_features(torch.zeros(1, 3, 56, 56)).sum() * 0
        crossing = getattr(self.config, "cross_attention_layers", ())
        for number, layer in enumerate(self.layers):
            if pixel_values is not None or number not in crossing:
                hidden = layer(hidden) + hidden.mean(1, keepdim=True)
        logits = self.head(hidden)
        loss = None if labels is None else nn.functional.cross_entropy(logits[0], labels[0])
        return SimpleNamespace(loss=loss, logits=logits)
