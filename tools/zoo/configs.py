"""A config for a class: its default, with what released checkpoints have where that breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kit.full_configs import CONFIGS

OVERRIDES: dict[str, dict[str, Any]] = {}


def config(kind: Any) -> Any:
    """The config of a full-size model of this class."""
    name = kind.__name__
    fields = OVERRIDES.get(name, CONFIGS.get(name, {}))
    return kind.config_class(**_plain(fields))


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copied to the bottom: classes change what they are given."""
    return {
        key: _plain(value) if isinstance(value, Mapping) else value for key, value in fields.items()
    }
