"""A sample that fails to encode is replaced by another one.

What it does
    Watches ms-swift's LazyLLMDataset, which puts a random other sample in the place of one
    that fails.

Why it is bad
    Image rows become text rows, a data set shrinks to what happens to encode, and the log
    shows a warning among thousands of lines.

When it is wrong
    The rule also reports a sample that is only too long, which --truncation_strategy delete drops
    as asked.

Example
    an image file that does not exist

Use instead
    Mend the data: `vlmguard rows --images DATA` lists such rows. ms-swift's `strict` makes it raise
    instead.

Evidence
    ms-swift 3.0 - 4.6.0, dataset/utils.py. Own measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG203"
NAME = "sample-replaced"
DEFAULT = "warn"
PHASES = ("train", "eval", "generate")
ROWS = True


@hookimpl
def pre_step(run: Run, batch: Batch | None) -> Finding | None:
    causes = [sample.replaced for sample in (batch.samples if batch else ()) if sample.replaced]
    if not causes:
        return None
    return Finding(
        CODE,
        "warning",
        f"a row cannot be encoded, another one trains in its place ({causes[0]})",
        scope="rank",
        advice=(
            "vlmguard rows --images DATA lists such rows",
            "have the framework stop at them",
        ),
        evidence="ms-swift LazyLLMDataset, strict=False",
    )
