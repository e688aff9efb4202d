"""Which profile acts on a trainer.

Candidates are the plain profile, the ``PROFILE`` of each adapter that is armed (its framework was
imported), and what the entry-point group ``vlmguard.profiles`` brings. Each is a `Profile`, or
"module:name" of one or of its class: adapters are imported when their framework is, and must stay
light.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from fnmatch import fnmatchcase
from typing import Any

from vlmguard.runtime import seams
from vlmguard.runtime.faults import fault
from vlmguard_transformers.profile import Profile

GROUP = "vlmguard.profiles"
PLAIN = Profile()


class TwoProfiles(LookupError):
    """Two profiles own the same class."""


def of(trainer: Any) -> Profile:
    """The profile that owns ``trainer``. Raises `TwoProfiles` for a tie."""
    return select(trainer, candidates())


def select(trainer: Any, profiles: list[Profile]) -> Profile:
    """Of ``profiles``, the one that matches the most derived class of ``trainer``."""
    for kind in type(trainer).__mro__:
        name = f"{kind.__module__}:{kind.__qualname__}"
        owners = [p for p in profiles if any(fnmatchcase(name, own) for own in p.owns)]
        if len(owners) > 1:
            named = " and ".join(sorted(owner.name for owner in owners))
            raise TwoProfiles(
                f"the profiles {named} both own {name}; a profile that is registered in two ways "
                "needs the same module:name in both"
            )
        if owners:
            return owners[0]
    return PLAIN


def candidates() -> list[Profile]:
    """The profiles there are, each once."""
    found: list[Profile] = [PLAIN]
    for adapter in list(seams.armed):
        told = getattr(sys.modules.get(adapter), "PROFILE", None)
        if told is not None:
            found += _loaded(adapter, told)
    for entry in _entries():
        found += _loaded(entry.name, entry.value)
    return list(dict.fromkeys(found))


@functools.cache
def _entries() -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=GROUP))


def _loaded(name: str, told: Any) -> list[Profile]:
    try:
        return [_load(told) if isinstance(told, str) else told]
    except Exception as error:
        fault(f"profile {name}", error)
        return []


@functools.cache
def _load(path: str) -> Profile:
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name or "PROFILE")
    if isinstance(found, type) and issubclass(found, Profile):
        found = found()
    if not isinstance(found, Profile):
        raise TypeError(f"{path} is {type(found).__name__}, not a Profile")
    return found
