"""Trainable weights are float16 themselves."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_CAST = Do(
    "for p in model.parameters(): p.data = p.data.float() if p.requires_grad else p.data, "
    "on a line before the optimizer or trainer is made (diffusers: cast_training_params)",
    "more memory for what trains",
)


_ADAPTERS = Do(_CAST.action, "little: the adapters alone are cast; the model stays in float16")
_BFLOAT = Do(
    "accelerate launch --mixed_precision bf16 … (the rest as it was), and "
    "torch_dtype=torch.bfloat16 where the model is loaded: one of both alone is not enough",
    "none on cards from Ampere on",
)


def _why(facts: Facts) -> str:
    what = "the adapters that train" if "lora" in facts.tuning.lower() else "some"
    return (
        f"mixed precision keeps trainable weights in float32; here {what} are in float16, as the "
        "model was loaded"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    """Where the script is the user's, one line mends it; else the framework's argument."""
    masters = Do("fp32_masters", "more memory for those weights")
    other = Do("bf16", "none on cards from Ampere on")
    if facts.framework in ("", "accelerate"):
        other = _BFLOAT
    own = facts.framework in ("", "accelerate", "transformers")
    if own and "lora" in facts.tuning.lower():
        return (_ADAPTERS, other, masters)
    return (_CAST, masters, other) if own else (masters, other, _CAST)


FAILURE = Known(
    code="VG520",
    name="explain-unscale-fp16",
    title="Trainable weights are float16, which the scaler refuses",
    zh="可训练参数本身是 float16，GradScaler 无法处理",
    why=_why,
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
