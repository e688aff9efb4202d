"""Trainable weights are float16 themselves."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_CAST = Do(
    "for p in model.parameters(): p.data = p.data.float() if p.requires_grad else p.data, "
    "on a line before the optimizer or trainer is made (diffusers: cast_training_params)",
    "more memory for what trains",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Where the script is the user's, one line mends it; else the framework's argument."""
    masters = Do("fp32_masters", "more memory for those weights")
    other = Do("bf16", "none on cards from Ampere on")
    own = facts.framework in ("", "accelerate", "transformers")
    return (_CAST, masters, other) if own else (masters, other, _CAST)


FAILURE = Known(
    code="VG520",
    name="explain-unscale-fp16",
    title="Trainable weights are float16, which the scaler refuses",
    zh="可训练参数本身是 float16，GradScaler 无法处理",
    why="mixed precision keeps trainable weights in float32; here some were loaded in float16",
    do=_do,
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
