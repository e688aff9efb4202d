"""Image placeholders without pixel values, or pixel values without their grid.

What it does
    Looks at each encoded sample on the CPU, before forward.

Why it is bad
    Some models run silently on placeholder embeddings; others fail deep inside with
    "'NoneType' object is not iterable".

When it is wrong
    The text of a row without media may spell out a placeholder, for example `<image>`. The
    tokenizer makes a placeholder token of it, and yet the row is right as text. So the rule is
    silent unless the row names an image, a video or an audio of its own.

Example
    a collator that drops pixel_values

Use instead
    Mend the data or the collator; the message names the missing keys.

Evidence
    Qwen2-VL on transformers 4.51.3 runs silently. Own measurement: 2 gloo ranks on CPU,
    torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Run
from vlmguard.core.findings import Finding, cut
from vlmguard.core.hookspecs import hookimpl

CODE = "VG201"
NAME = "placeholders-without-pixels"
DEFAULT = "error"
PHASES = ("train", "eval", "generate")
ROWS = True


@hookimpl
def pre_step(run: Run, batch: Batch | None) -> Finding | None:
    for number, sample in enumerate(batch.samples if batch else ()):
        whole = sample.called(number)
        name = cut(whole, 46)
        if sample.missing:
            why = f"{name} has {', '.join(sample.keys)} but no {', '.join(sample.missing)}"
        elif sample.placeholders and not sample.keys and sample.images != 0:
            why = (
                f"{name} has {sample.placeholders} image tokens and no pixel_values: dropped by "
                "the collator, or no file"
            )
        else:
            continue
        return Finding(
            CODE, "error", why, scope="rank",
            advice="complete the data or the collator", evidence=f"seen in {whole}",
        )  # fmt: skip
    return None
