"""The broken runs: what fails without the guard, and the reference that the mended run must equal.

A reference is the same training in plain torch, one process for all ranks (`oracle_run`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ASSERTS = "AssertionError"
UNREDUCED = "ZERO DDP error"
PAYLOAD = "object has no attribute 'payload'"
WRONG = "wrong"
HANG = "hang"
MISMATCH = "Received data size doesn't match expected size"  # gloo's words; NCCL waits for ever
OWN = {"processor": "own"}  # a model that transformers does not know: only the user knows its own


@dataclass(frozen=True)
class Case:
    """Attributes:
    broken: what the run without the guard ends in: text of its error, `WRONG` or `HANG`.
    wish: the worker's settings.
    fixes: rules that must have mended it.
    """

    name: str
    broken: str
    wish: dict[str, Any] = field(default_factory=dict)
    world: int = 1
    fixes: tuple[str, ...] = ("VG205",)

    @property
    def off(self) -> dict[str, Any]:
        return {**self.wish, "name": self.name, "guard": None}

    @property
    def on(self) -> dict[str, Any]:
        return {**self.wish, "name": self.name}

    @property
    def stopping(self) -> dict[str, Any]:
        env = {"VLMGUARD_RULES": "VG205=error"}
        return {**self.wish, "name": f"{self.name}-error", "env": env}

    @property
    def reference(self) -> dict[str, Any]:
        return {**self.off, "name": f"{self.name}-reference", "oracle": True}


def two_tower(**wish: Any) -> dict[str, Any]:
    return {"model": "two_tower", "guard": OWN, **wish}


def other(**wish: Any) -> dict[str, Any]:
    return {"model": "other", "guard": OWN, **wish}


def window(*steps: Any, **wish: Any) -> dict[str, Any]:
    """Accumulation over two batches."""
    return {"steps": list(steps), "accumulate": 2, "enable_accumulation": True, **wish}


BLIND = {"env": {"VLMGUARD_OBSERVE": "off"}}
"""No model is known to take a blank inside: the batch is completed."""
TEXT = ["image", "text"]
LONG = ["image", "text", "text", "image"]
ONE_RANK = ["image", ["image", "text"], ["text", "image"]]

ALONE = (
    Case("qwen", ASSERTS, {"steps": TEXT}),
    Case("qwen-fp16", ASSERTS, {"steps": TEXT, "precision": "fp16", "seed": 1}),
    Case("qwen-first", ASSERTS, {"steps": ["text", "image"], "decay": 0.1, **BLIND}),
    Case("tower", ASSERTS, two_tower(steps=TEXT, precision="fp16")),
    Case("other", ASSERTS, other(steps=TEXT)),
    Case("other-900", UNREDUCED, other(steps=TEXT, chunks="900", seed=3)),
    Case("qwen25", ASSERTS, {"steps": TEXT, "model": "qwen2_5_vl"}),
    Case("llava", ASSERTS, {"steps": TEXT, "model": "llava"}),
    Case("qwen-homeless", ASSERTS, {"steps": TEXT, "homeless": True, **BLIND}),
    Case("qwen25-homeless", UNREDUCED,
         {"steps": TEXT, "homeless": True, "model": "qwen2_5_vl", "chunks": "one", **BLIND}),
    Case("llava-homeless", ASSERTS, {"steps": TEXT, "homeless": True, "model": "llava", **BLIND}),
    Case("checkpointed", ASSERTS, {"steps": TEXT, "checkpointing": {}}),
    Case("positional", ASSERTS, {"steps": TEXT, "unusual": "positional"}),
    Case("qwen-mixed", UNREDUCED, {"steps": TEXT, "chunks": "mixed"}),
    Case("qwen-one", UNREDUCED, {"steps": TEXT, "chunks": "one", "precision": "fp16"}),
    Case("tower-one", UNREDUCED, two_tower(steps=TEXT, chunks="one")),
    Case("other-one", UNREDUCED, other(steps=TEXT, chunks="one", precision="fp16")),
    Case("qwen25-mixed", UNREDUCED, {"steps": TEXT, "model": "qwen2_5_vl", "chunks": "mixed"}),
    Case("llava-mixed", UNREDUCED, {"steps": TEXT, "model": "llava", "chunks": "one"}),
    Case("qwen-silent", WRONG, {"steps": LONG, "max_norm": 0}),
    Case("qwen-silent-fp16", WRONG, {"steps": LONG, "max_norm": 0, "precision": "fp16"}),
    Case("tower-silent", WRONG, two_tower(steps=LONG, max_norm=0, precision="fp16")),
    Case("other-silent", WRONG, other(steps=LONG, max_norm=0)),
    Case("qwen-window", ASSERTS, window("text", "image")),
    Case("tower-window", ASSERTS, two_tower(**window("text", "image", precision="fp16"))),
    Case("qwen-window-mixed", UNREDUCED, window(*TEXT, chunks="mixed")),
    Case("tower-window-one", UNREDUCED, two_tower(**window(*TEXT, "text", "text", chunks="one"))),
    Case("tower-stale", WRONG, two_tower(**window(*TEXT, "text", "text", max_norm=0))),
    Case("tower-no-master", PAYLOAD, two_tower(steps=["text"], max_norm=0, master_weights=False)),
)  # fmt: skip

PAIR = (
    Case("qwen-2", ASSERTS, {"steps": TEXT, "seed": 2}, 2),
    Case("tower-2", ASSERTS, two_tower(steps=TEXT, precision="fp16"), 2),
    Case("qwen-mixed-2", UNREDUCED, {"steps": TEXT, "chunks": "mixed", "precision": "fp16"}, 2),
    Case("tower-one-2", UNREDUCED, two_tower(steps=TEXT, chunks="one"), 2),
    Case("qwen-silent-2", WRONG, {"steps": LONG, "max_norm": 0}, 2),
    Case("tower-silent-2", WRONG, two_tower(steps=LONG, max_norm=0, precision="fp16"), 2),
    Case("qwen-window-2", ASSERTS, window("text", "image"), 2),
)  # fmt: skip

HANGS = (
    Case("qwen-hang", HANG, {"steps": ONE_RANK}, 2),
    Case("tower-hang", MISMATCH, two_tower(steps=ONE_RANK, chunks="mixed", precision="fp16"), 2),
    Case("frozen-hang", HANG, {"steps": ONE_RANK, "freeze": True}, 2),
    Case("zero-hang", MISMATCH, {"steps": ONE_RANK, "plugin": "low_level_zero"}, 2),
)
CASES = (*ALONE, *PAIR, *HANGS)
