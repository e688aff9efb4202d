"""The explicit way in: one booster, with what only its owner knows about the model."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vlmguard.core import settings
from vlmguard.runtime import arming


@dataclass(frozen=True)
class Options:
    """Attributes:
    processor: the model's own processor; None to look for it by the model's name.
    dry_step: the batch of the dry step.
    freeze: what to freeze; None for what the settings say.
    """

    processor: Any = None
    dry_step: Any = None
    freeze: tuple[str, ...] | None = None


_told: weakref.WeakKeyDictionary[Any, Options] = weakref.WeakKeyDictionary()


def of(booster: Any) -> Options:
    """What `guard_booster` was told about this booster."""
    return _told.get(booster, Options())


def tell(
    booster: Any,
    processor: Any,
    freeze: str | Iterable[str],
    dry_step: Any,
    rules: Mapping[str, str] | None,
) -> None:
    """What `vlmguard_colossalai.guard_booster` does; see there."""
    if arming.is_off():
        return
    from vlmguard_colossalai import rules as own

    own.register()
    arming.arm("vlmguard_colossalai")
    words = [freeze] if isinstance(freeze, str) else list(freeze)
    wish = settings.read_freeze(words, _WHERE) if words else None
    _told[booster] = Options(processor, dry_step, wish)
    policies = settings.read_rules(rules or {}, _WHERE)
    if policies:
        known = settings.get()
        settings.publish(
            dataclasses.replace(
                known,
                rules={**known.rules, **policies},
                sources=tuple(dict.fromkeys((*known.sources, _WHERE))),
            )
        )


_WHERE = "guard_booster"
