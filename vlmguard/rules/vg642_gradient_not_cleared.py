"""A gradient of an earlier step is still there when the next one is added.

What it does
    Keeps two sums for each tensor: of what came since its gradient was None, and of what came
    since the last step. It speaks if the optimizer gets the first, and parts were added on
    both sides of a step. It says since which step.

Why it is bad
    Each update repeats the earlier ones: after ten steps the gradient is the sum of ten.
    deepspeedai/DeepSpeed#7837 (zero_grad is skipped under ZeRO-0 with bf16).

When it is wrong
    You may accumulate gradients over several steps of the optimizer on purpose, or two
    optimizers may share tensors.

Example
    a loop that calls optimizer.step() and never optimizer.zero_grad()

Use instead
    optimizer.zero_grad() after each step.

Evidence
    The thread above, as read. Own tests of a loop and of SAM, which is no error: tests/ledger.
"""
