"""The loss scale fell to its minimum."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG560",
    name="explain-loss-scale",
    title="float16's loss scale fell to its minimum",
    zh="fp16 损失缩放降到最小值",
    why="every step overflowed in float16 until the scale could not "
    "fall any more: the model (often its vision tower) was trained "
    "in bfloat16 and does not fit float16, or the loss is no "
    "number",
    do=(
        Do("bf16", "none on cards from Ampere on"),
        Do("clip", "slower learning"),
        Do("look at the first bad step's rows: empty labels give nan"),
    ),
    wrong="A larger initial scale does not help: it falls the same way.",
    signs=(
        Sign("Current loss scale already at minimum"),
        Sign("loss scale already at minimum"),
        Sign("Minimum loss scale reached"),
        Sign("FloatingPointError", beside=("scale",)),
        Sign("loss scale", where="else"),
        Sign("grad scaler", where="else"),
        Sign("GradScaler", where="else"),
    ),
    examples=(
        Example(
            "Exception: Current loss scale already at minimum - cannot "
            "decrease scale anymore. Exiting run.",
            "deepspeed/runtime/fp16/loss_scaler.py, 0.19.8",
        ),
    ),
    evidence="deepspeed/runtime/fp16/loss_scaler.py, 0.19.8.",
    narrow=2,
)
