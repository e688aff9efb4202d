"""What is known about a model family's input: its keys, its placeholders, tokens per image.

One family a file. `of` finds the family by ``config.model_type``; an unknown one is not judged.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


MODEL_TYPES = {
    "qwen_vl": ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
    "llava": ("llava", "llava_next", "llava_onevision"),
}
"""Family → the ``model_type`` of its configs. Its file is imported for one of these."""


def of(config: Any) -> Family | None:
    """The family of a model's config, or None."""
    kind = getattr(config, "model_type", None)
    name = next((name for name, kinds in MODEL_TYPES.items() if kind in kinds), "")
    return Family(name, importlib.import_module(f"{__name__}.{name}")) if name else None
