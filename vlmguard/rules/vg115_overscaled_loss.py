"""A loss that does not divide by the number of tokens that the trainer passes.

What it does
    Fires where the trainer leaves the division by the step's tokens to the model, and a tiny copy
    of the model was observed not to make it. The trainer is then told to average.

Why it is bad
    The model's loss is a mean over tokens already, and the trainer takes it for a sum. So the
    trainer does not divide it by the number of micro-batches, and multiplies it by the number of
    ranks. With 2 ranks and 2 micro-batches each gradient is 4 times too large, and so is the loss
    that is logged and evaluated. Nothing fails.

When it is wrong
    Silent where the trainer computes the loss itself, where the model says that it takes no such
    number, and where its loss could not be observed. Two ranks' means are averaged as they are:
    a rank with fewer tokens counts as much as one with more. An evaluation without a training is
    left as it is.

Example
    Qwen2-Audio, a plain Trainer, two ranks, two micro-batches: four times the gradient

Use instead
    model.accepts_loss_kwargs = False, before the Trainer is made.

Evidence
    Own runs on transformers 5.23, two ranks: updates are off by the number of ranks times that of
    micro-batches. Qwen2-Audio's and Granite Speech's forwards take **kwargs and compute a plain
    cross-entropy.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, MeanLoss
from vlmguard.core.hookspecs import hookimpl

CODE = "VG115"
NAME = "overscaled-loss"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.overscaled < 2 or not run.known("overscaled"):
        return None
    return Finding(
        CODE,
        "warning",
        f"gradients become {run.overscaled} times too large: the model's loss ignores the "
        "trainer's number of tokens",
        remedies=(MeanLoss(),),
        advice=(MeanLoss(),),
        evidence="observed on a tiny copy of the model; own runs, transformers 5.23",
    )
