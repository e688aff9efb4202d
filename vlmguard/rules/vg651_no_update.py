"""Tensors that had a gradient and did not move.

What it does
    Takes the tensors that had a gradient and a learning rate above 0, and compares them before and
    after a step. It reports tensors in which no bit changed, and for the others the share of
    entries that changed. If the optimizer keeps a float32 master copy, the copy is compared
    instead. A step that was skipped because of an overflow is not an error.

Why it is bad
    The significand of a bf16 number has 8 bits. So an update that is smaller than about 1/512 of
    the weight is rounded away (pytorch/ao#1124, pytorch/pytorch#120376). A step may also be
    skipped without a message (deepspeedai/DeepSpeed#8415).

When it is wrong
    A tensor whose gradient is 0 need not move. With a learning rate of 0 (the start of a warm-up,
    the end of a schedule) the rule is silent.

Example
    pure bf16 weights and a learning rate of 1e-6 without a master copy

Use instead
    Weights of float32 under bf16 autocast, an optimizer with a master copy, or a larger
    learning rate.

Evidence
    The threads above, as read. Own tests: tests/ledger.
"""
