"""The optimizer gets another gradient than the backward made.

What it does
    Adds each gradient, as it reaches its tensor, to a sketch of a few numbers, and makes the
    same sketch of what the optimizer is given. Sketches are linear: the mean of the first over
    all ranks is the second, whatever lies between. It speaks if they differ by more than
    rounding explains, tensor by tensor. If the numbers show the reason, it names it: one rank's
    part is missing, or a part came twice or from an earlier step.

Why it is bad
    The update is wrong and the run ends with exit 0. A step without images under ZeRO-3, after
    one with: 31 of 57 vision tensors differ and are moved 2.000 times. LoRA on an image and a
    video in one row under DDP: 8 of 44 tensors, 56 % off, from the first step on.

When it is wrong
    Hooks, clipping by value, noise and compression change gradients on purpose. If the ledger
    sees one, the report names it and does not warn. One that it cannot see is a note.

Example
    swift sft with a trainable tower under ZeRO-3, LLaVA-1.5, rows with and without images

Use instead
    The other checkpointing variant (`vlmguard compat`), or a blank image in rows without one:
    rules VG101 to VG108 name what is known. Otherwise a run under plain DDP says whether it is
    the strategy.

Evidence
    Own measurement: torch 2.13.0, deepspeed 0.19.8, transformers 5.23, gloo on CPU. Healthy
    runs of DDP, ZeRO-1/2/3 and FSDP2, LoRA, accumulation and torch.compile differ by at most
    1e-5, with bf16 weights by 5e-3. deepspeedai/DeepSpeed#8224 as read. tests/ledger.
"""
