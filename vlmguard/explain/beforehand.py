"""Titles of the rules that would have seen a failure beforehand, as `vlmguard rule` has them."""

from __future__ import annotations

TITLES = {
    "VG101": "Reentrant gradient checkpointing under DDP",
    "VG102": "Reentrant checkpointing of a module that runs more than once, under ZeRO-2, "
    "ZeRO-3 or FSDP2",
    "VG103": "Reentrant checkpointing with two forwards before one backward, or a shared weight",
    "VG104": "Reentrant checkpointing of blocks whose input carries no gradient",
    "VG105": "Non-reentrant checkpointing under ZeRO-3 with frozen parameters, on a DeepSpeed "
    "that cannot",
    "VG106": "A tower, or a part of the language model, that a batch can leave unused",
    "VG107": "Reentrant checkpointing with find_unused_parameters=False",
    "VG109": "DDP's static graph together with gradient accumulation",
    "VG201": "Image placeholders without pixel values, or pixel values without their grid",
    "VG202": "The number of placeholder tokens is not what the image grid says",
    "VG205": "A text-only batch while a tower that only images use trains under Gemini or "
    "low-level ZeRO",
    "VG303": "Trainable parameters that forward did not touch, under Gemini",
    "VG304": "Trainable parameters that a model never uses, under Gemini",
}
