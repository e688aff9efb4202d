"""Image placeholders without pixel values, or pixel values without their grid.

What it does
    Looks at each encoded sample on the CPU, before forward.

Why it is bad
    Some models run silently on placeholder embeddings; others fail deep inside with
    "'NoneType' object is not iterable".

When it is wrong
    Text that merely mentions the placeholder's spelling is not tokenised as one: the rule
    counts ids.

Example
    a collator that drops pixel_values

Use instead
    Mend the data or the collator; the message names the missing keys.

Evidence
    Qwen2-VL on transformers 4.51.3 runs silently. Own measurement: 2 gloo ranks on CPU,
    torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG201"
NAME = "placeholders-without-pixels"
DEFAULT = "error"


@hookimpl
def pre_step(run: Run, batch: Batch | None, gradients: Gradients | None) -> Finding | None:
    for number, sample in enumerate(batch.samples if batch else ()):
        name = f"sample {number}" + (f" ({sample.prefix.rstrip('_')})" if sample.prefix else "")
        if sample.missing:
            why = f"{name} has {', '.join(sample.keys)} but no {', '.join(sample.missing)}"
        elif sample.placeholders and not sample.keys:
            why = f"{name} has {sample.placeholders} image placeholders but no pixel_values"
        else:
            continue
        return Finding(CODE, "error", why, scope="rank", advice="complete the data or the collator")
    return None
