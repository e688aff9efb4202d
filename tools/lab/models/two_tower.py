"""A vision tower and a language model in plain torch, and its three variants.

per_image calls the tower once an image; tied uses one block twice and one matrix for embedding and
head; two_forwards encodes a query and a passage before one backward, as embedders do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tools.lab.models.batches import Kind

WIDTH, WORDS, PATCHES, PIXELS, ROWS, LENGTH = 16, 32, 4, 8, 2, 6
LORA = r"language\.\d+\.(mix|up|down)"
"""The language model's linear layers, for peft."""


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a small feed-forward, each added to what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(self.norm(hidden)).chunk(3, -1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / WIDTH**0.5, -1)
        hidden = hidden + weights @ value
        return hidden + self.down(torch.nn.functional.gelu(self.up(hidden)))


class TwoTower(nn.Module):  # type: ignore[misc]
    """variant: "two_tower", "per_image", "tied" or "two_forwards"."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.patch = nn.Linear(PIXELS, WIDTH)
        self.vision = nn.ModuleList([Block(), Block()])
        self.projector = nn.Linear(WIDTH, WIDTH)
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.language = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if variant == "tied":
            self.language.append(self.language[0])
            self.head.weight = self.embed.weight
        self.through: Callable[..., torch.Tensor] = lambda block, hidden: block(hidden)

    def checkpointing(self, use_reentrant: bool) -> None:
        """Recompute every block in backward."""
        self.through = functools.partial(checkpoint, use_reentrant=use_reentrant)

    def blocks(self) -> list[nn.Module]:
        """The modules that FSDP shards one by one."""
        return [*self.vision, *self.language]

    def tower(self) -> list[nn.Module]:
        """All that only images reach."""
        return [self.patch, *self.vision, self.projector]

    def text_embedding(self) -> nn.Module:
        """Whose output is made to require gradients under LoRA."""
        return self.embed

    def see(self, images: torch.Tensor) -> torch.Tensor:
        """[images, patches, pixels] → [images, patches, width]."""
        if self.variant == "per_image":
            return torch.cat([self._see(image[None]) for image in images])
        return self._see(images)

    def _see(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.patch(images)
        for block in self.vision:
            hidden = self.through(block, hidden)
        projected: torch.Tensor = self.projector(hidden)
        return projected

    def read(self, batch: dict[str, Any], words: torch.Tensor) -> torch.Tensor:
        """Hidden states at the words."""
        hidden = self.embed(words)
        if batch["images"] is not None:
            seen = self.see(batch["images"])
            hidden = (
                hidden + seen.sum() * 0.0 if batch["dummy"] else torch.cat([seen, hidden], dim=1)
            )
        for block in self.language:
            hidden = self.through(block, hidden)
        return hidden[:, -words.shape[1] :]

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """The loss, a mean over as many words in every batch."""
        if self.variant == "two_forwards":
            query = self.head(self.read(batch, batch["words"])).mean(1)
            passage = self.head(self.read(batch, batch["words"].flip(1))).mean(1)
            query, passage = (nn.functional.normalize(v, dim=-1) for v in (query, passage))
            return ((query @ passage.T - batch["scores"]) ** 2).mean()
        logits = self.head(self.read(batch, batch["words"]))
        loss: torch.Tensor = nn.functional.cross_entropy(
            logits.reshape(-1, WORDS), batch["labels"].reshape(-1)
        )
        return loss


def build(variant: str) -> TwoTower:
    """With torch's current seed."""
    return TwoTower(variant)


def batch(kind: Kind) -> dict[str, Any]:
    """Random words, labels and perhaps images, the same for the same kind."""
    made = torch.Generator().manual_seed(kind.seed)
    images = torch.randn(ROWS, PATCHES, PIXELS, generator=made)
    return {
        "words": torch.randint(WORDS, (ROWS, LENGTH), generator=made),
        "labels": torch.randint(WORDS, (ROWS, LENGTH), generator=made),
        "scores": torch.randn(ROWS, ROWS, generator=made),
        "images": None if kind.images == "none" else images,
        "dummy": kind.images == "dummy",
    }


def trainable(parameters: Iterable[tuple[str, nn.Parameter]]) -> dict[str, nn.Parameter]:
    """Those that require gradients, by name."""
    return {name: parameter for name, parameter in parameters if parameter.requires_grad}
