"""The optimizer gets a gradient that differs from the one that the backward made.

What it does
    A sketch is a few random sums of a tensor's entries. vlmguard adds up the sketch of each
    gradient when it reaches its tensor, and takes the same sketch of the gradient that the
    optimizer gets. Sketches are linear, so in a right run the mean of the first over all ranks
    equals the second. The rule warns for each tensor where they differ by more than rounding.
    If the numbers show the reason, it is named: one rank's part is missing, or a part came twice
    or from an earlier step.

Why it is bad
    The update is wrong and the run ends with exit 0. Two measured cases: a step without images
    after a step with images under ZeRO-3 moves 31 of 58 tensors (25 of vision, 6 of the
    aligner) twice as far as they should. LoRA under DDP with an image and a video in one row: 8
    of 44 tensors are 56 % off, from the first step on.

When it is wrong
    Hooks, clipping by value, noise and compression change gradients on purpose. If the ledger
    finds such a hook, the report names it and does not warn. If values changed and no hook is
    found, it is a note.

Example
    swift sft with a trainable tower under ZeRO-3, LLaVA-1.5, rows with and without images

Use instead
    The wrapped model, not the one inside, and no no_sync() in the last micro-batch. The other
    checkpointing variant if a gradient counts twice (`vlmguard compat`: usually a module runs
    twice under checkpointing). Clear gradients in each step, or put a blank image into rows
    without one: rules VG101 to VG108 name the known causes. If none of them applies, run it
    under plain DDP: if it is right there, the cause lies in the strategy.

Evidence
    Own measurement: torch 2.13.0, deepspeed 0.19.8, transformers 5.23, gloo on CPU. Healthy
    runs of DDP, ZeRO-1/2/3 and FSDP2, LoRA, accumulation and torch.compile differ by at most
    1e-5, with bf16 weights by 5e-3. deepspeedai/DeepSpeed#8224 as read. tests/ledger.
"""
