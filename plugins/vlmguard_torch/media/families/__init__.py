"""What is known about a model family's input: its keys, its placeholders, tokens per image.

One family a file. `of` finds the family by ``config.model_type``; an unknown one is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlmguard_torch.media.families import llava, qwen_vl


@dataclass(frozen=True)
class Family:
    """Attributes:
    name: the family.
    module: where its functions are.
    """

    name: str
    module: Any

    def placeholder_ids(self, config: Any) -> frozenset[int]:
        return frozenset(self.module.placeholder_ids(config))

    def expected(self, sample: Mapping[str, Any], config: Any, prefix: str) -> int | None:
        return self.module.expected(sample, config, prefix)  # type: ignore[no-any-return]

    def untrained(self, config: Any) -> tuple[str, ...]:
        return self.module.untrained(config)  # type: ignore[no-any-return]

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return self.module.NEEDS  # type: ignore[no-any-return]


_ALL = tuple(Family(module.__name__.rsplit(".", 1)[-1], module) for module in (qwen_vl, llava))


def of(config: Any) -> Family | None:
    """The family of a model's config, or None."""
    kind = getattr(config, "model_type", None)
    return next((family for family in _ALL if kind in family.module.MODEL_TYPES), None)
