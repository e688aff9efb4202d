"""The number of placeholder tokens is not what the image grid says.

What it does
    Compares, per sample, placeholder ids with the tokens that the grid will fill.

Why it is bad
    Truncation that cuts an image's placeholders ends in "Image features and image tokens do
    not match", or in features scattered to the wrong places.

When it is wrong
    Families whose token count cannot be told from the grid are not judged.

Example
    --max_length smaller than an image

Use instead
    Raise max_length, or lower the pixel budget. Dropping the images is not a cure.

Evidence
    huggingface/trl#5927, huggingface/transformers#37222. Own measurement: 2 gloo ranks on
    CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Run
from vlmguard.core.findings import Finding, LongerRows, cut
from vlmguard.core.hookspecs import hookimpl

CODE = "VG202"
NAME = "placeholder-count"
DEFAULT = "error"
PHASES = ("train", "eval", "generate")
ROWS = True


@hookimpl
def pre_step(run: Run, batch: Batch | None) -> Finding | None:
    for number, sample in enumerate(batch.samples if batch else ()):
        if sample.placeholders is None or sample.expected is None or not sample.keys:
            continue
        if sample.placeholders != sample.expected:
            name = sample.called(number)
            return Finding(
                CODE,
                "error",
                f"{cut(name, 46)} has {sample.placeholders} image tokens, its images need "
                f"{sample.expected}: cut at max_length?",
                scope="rank",
                advice=(LongerRows(),),
                evidence=f"huggingface/trl#5927; seen in {name}",
            )
    return None
