"""A failure that a framework's own code raised: its next release, before a look at its lines."""

from __future__ import annotations

import re

from vlmguard_explain.tracebacks.event import Event

# Frameworks that are run by a command of their own, by their package.
_INSTALLED = {"swift": "ms-swift", "FlagEmbedding": "FlagEmbedding"}
_INSTALLED |= dict.fromkeys(("llamafactory", "axolotl", "colossalai", "verl"), "")
# Of checks a newer release has the same; these are slips.
_SLIPS = frozenset(
    "NameError UnboundLocalError AttributeError TypeError IndexError KeyError "
    "ZeroDivisionError".split()
)


def update(event: Event) -> str:
    """The command that brings a newer release, or ""."""
    frames = event.cause.frames if event.cause is not None and event.cause.frames else event.frames
    # torch's __getattr__ speaks for the class
    paths = [path for path, _, _ in frames if not path.endswith("torch/nn/modules/module.py")]
    inside = re.search(r"-packages/(\w{2,30})/", paths[-1].replace("\\", "/")) if paths else None
    if inside is None or inside[1] not in _INSTALLED or event.type not in _SLIPS:
        return ""
    name = _INSTALLED[inside[1]] or inside[1]
    return f"python -m pip install -U {name}: it was raised in its own code, mostly mended by now"
