"""The explicit way in: one booster, with what only its owner knows about the model."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard.runtime import seams, stub


@dataclass(frozen=True)
class Options:
    """Attributes:
    processor: the model's own processor; None to look for it by the model's name.
    block: the image that it makes.
    dry_step: the batch of the dry step.
    freeze: what to freeze; None for what the settings say.
    """

    processor: Any = None
    block: Any = None
    dry_step: Any = None
    freeze: tuple[str, ...] | None = None


_told: weakref.WeakKeyDictionary[Any, Options] = weakref.WeakKeyDictionary()
_boosted: weakref.WeakSet[Any] = weakref.WeakSet()


def boosted(booster: Any) -> None:
    """It has wrapped a model: what it is told from now on comes too late."""
    _boosted.add(booster)


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
    """What `vlmguard_colossalai.guard_booster` does; see there. What an earlier call said of this
    booster holds where this one says nothing."""
    if stub.is_off():
        return
    _check(booster)
    block = _block(processor)
    seams.arm("vlmguard_colossalai")
    words = [freeze] if isinstance(freeze, str) else list(freeze)
    wish = settings.read_freeze(words, _WHERE) if words else None
    said = {"processor": processor, "block": block, "dry_step": dry_step, "freeze": wish}
    _told[booster] = dataclasses.replace(
        of(booster), **{name: value for name, value in said.items() if value is not None}
    )
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


def _check(booster: Any) -> None:
    """Raises `SettingsError` if it is not a booster, or has wrapped a model already."""
    if not (hasattr(booster, "plugin") and callable(getattr(booster, "boost", None))):
        given = "None" if booster is None else f"a {type(booster).__name__}"
        raise SettingsError(f"guard_booster takes a colossalai Booster, not {given}")
    if booster in _boosted:
        raise SettingsError(
            "guard_booster comes too late: this booster has wrapped a model; call it before boost"
        )


def _block(processor: Any) -> Any:
    """The image that ``processor`` makes; None without one. Raises `SettingsError`."""
    from vlmguard_colossalai import dummy

    if processor is None:
        return None
    try:
        return dummy.build(processor)
    except dummy.CannotComplete as error:
        raise SettingsError(f"guard_booster cannot use this processor: {error}") from error


_WHERE = "guard_booster"
