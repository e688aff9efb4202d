"""LoRA asked of a booster whose plug-in has none.

What it does
    Explains `The plugin … does not support lora`.

Why it is bad
    The message sounds as if LoRA and Gemini could not go together; they can.

When it is wrong
    The message alone decides.

Example
    booster.enable_lora(model, lora_config=config) with GeminiPlugin

Use instead
    model = peft.get_peft_model(model, config) before booster.boost.

Evidence
    hpcaitech/ColossalAI#5290; catalogue row 25. Own measurement: peft 0.13.2 before boost trains.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("does not support lora",)
WHY = "this plug-in has no LoRA of its own, but it trains a model that already has adapters"
ADVICE = "model = peft.get_peft_model(model, lora_config), before booster.boost"

CODE = "VG509"
NAME = "explain-lora-unsupported"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
