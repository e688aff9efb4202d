"""Whether a model is loaded in a few bits."""

from __future__ import annotations

from vlmguard.explain.logfacts import Facts

_GIVEN = ("bits", "quantization_bit", "quant_bits")


def few(facts: Facts) -> bool:
    """Whether the log says that it is loaded in 4 or 8 bits, which wants a device_map."""
    given = {facts.said.get(name, "") for name in _GIVEN}
    return bool({"4", "8"} & given) or facts.said.get("load_in_4bit", "").lower() == "true"
