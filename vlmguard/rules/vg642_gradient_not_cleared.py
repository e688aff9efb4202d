"""A gradient of an earlier step is still there when the next one is added.

What it does
    Keeps two sums for each tensor: of the gradients that were added since it had none, and of
    those that were added since the last step. The rule warns if the optimizer gets the first sum
    although a step lies between its parts. It says since which step.

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
