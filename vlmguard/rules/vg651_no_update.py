"""Tensors that had a gradient and did not move.

What it does
    Compares the tensors that had a gradient and a learning rate above 0 before and after a step.
    It reports which of them did not change by a bit, and which share of a tensor's entries did.
    If the optimizer keeps a master copy, the copy is judged. A step that was skipped for an
    overflow is not an error.

Why it is bad
    A weight of bf16 has 8 bits: an update of less than a 512th of it rounds to nothing.
    pytorch/ao#1124, pytorch/pytorch#120376. A step that is skipped without a word:
    deepspeedai/DeepSpeed#8415.

When it is wrong
    With a learning rate of 0 by design (warm-up, a schedule's end) it says nothing; a tensor
    whose gradient is 0 need not move.

Example
    pure bf16 weights and a learning rate of 1e-6 without a master copy

Use instead
    Weights of float32 under bf16 autocast, an optimizer with a master copy, or a larger
    learning rate.

Evidence
    The threads above, as read. Own tests: tests/ledger.
"""
