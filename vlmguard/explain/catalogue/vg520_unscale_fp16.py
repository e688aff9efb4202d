"""Trainable weights are float16 themselves."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG520",
    name="explain-unscale-fp16",
    title="Trainable weights are float16, which the scaler refuses",
    zh="可训练参数本身是 float16，GradScaler 无法处理",
    why="mixed precision keeps trainable weights in float32; here some were loaded in float16",
    do=(
        Do("fp32_masters", "more memory for those weights"),
        Do("bf16", "none on cards from Ampere on"),
        Do(
            "cast only what trains: for p in params_that_train: p.data = p.data.float()",
            "more memory for those weights",
        ),
    ),
    wrong="Switching mixed precision off trains in pure float16, which overflows.",
    signs=(
        Sign("to unscale FP16 gradients"),
        Sign("/amp/grad_scaler.py in unscale_", where="within", no=("already been called",)),
        Sign("/amp/grad_scaler.py in _unscale_grads_", where="within", no=("same device",)),
    ),
    examples=(
        Example(
            "ValueError: Attempting to unscale FP16 gradients.", "made by causing it, torch 2.13.0"
        ),
    ),
    evidence="salesforce/LAVIS#279; row 20.",
)
