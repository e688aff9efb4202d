"""How each framework spells a change: action → framework (or "hf", "yaml", "") → words.

{name} is filled in from the action's values; the words of "" hold for plain transformers, torch or
DeepSpeed.
"""

from __future__ import annotations

from vlmguard.explain.spelt import gradients, running, sizes

SPELT = {**gradients.SPELT, **sizes.SPELT, **running.SPELT}
