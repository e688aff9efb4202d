"""Frightening lines that are healthy by themselves; told beside a failure, never as one."""

from __future__ import annotations

NOTES = {
    "None of the inputs have requires_grad=True": (
        "normal where the tower is frozen or under no_grad; a bug where it is to learn (VG104)"
    ),
    "Invalidate trace cache": (
        "ZeRO-3 saw modules in another order than before: normal where an evaluation begins or "
        "ends; in training, rows of different kinds: slow by itself, and seen before ranks wait "
        "for each other"
    ),
    "find_unused_parameters=True was specified in DDP constructor, but did not find any unused": (
        "harmless: DDP looks in vain for unused parameters in each step"
    ),
    "pytorch allocator cache flushes since last step": (
        "memory is nearly full: smaller images or rows before it runs out"
    ),
    "using GPU 0 to perform barrier as devices used by this process are currently unknown": (
        "harmless where each rank has its own card"
    ),
    "were not initialized from the model checkpoint": (
        "these weights start at random: a projector saved in a separate file is not loaded"
    ),
    "was not used when initializing": "weights of the checkpoint that this model has no place for",
}
