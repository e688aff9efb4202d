"""Our keys in LLaMA-Factory's YAML or JSON, taken out before its parser rejects them.

    vlmguard: {VG101: warn}          vlmguard: off
    vlmguard_freeze: [vision, aligner]

On a command line without a file they are flags, and `vlmguard_transformers.arguments` takes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vlmguard.runtime.faults import contain
from vlmguard_transformers import arguments


def read(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What LLaMA-Factory read, without our keys."""
    found = wrapped(*args, **kwargs)
    if not isinstance(found, dict):
        return found
    flags = contain("reading the keys of a file", words, found) or []
    arguments.settle(flags)
    return {key: value for key, value in found.items() if not _ours(key)}


def _ours(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("vlmguard")


def words(told: Mapping[str, Any]) -> list[str]:
    """Our keys as the command line would give them."""
    found: list[str] = []
    for key, value in told.items():
        if _ours(key) and value is not None:
            found += ["--" + key.replace("_", "-"), *_words(value)]
    return found


def _words(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [json.dumps(value)]
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return [str(value)]  # YAML's bare off is False, which reads as off
