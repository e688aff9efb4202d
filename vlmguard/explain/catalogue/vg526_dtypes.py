"""Two dtypes meet in one operation."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_WRITTEN = ("Index put", "masked_scatter", "index_copy", "scatter(")
_ROUND = '{{place}}: with torch.autocast("cuda", dtype=torch.{}): round that call'
# float32 images in front of a convolution whose weights are half.
_IMAGES = ("Input type (torch.cuda.FloatTensor) and weight type", "Input type (float) and bias")
_CASTS = (
    Do(_ROUND.format("float16"), "none", when=("Half",), unless=_WRITTEN, kind="cast"),
    Do(_ROUND.format("bfloat16"), "none", unless=_WRITTEN, kind="cast"),
)
_ROTARY = "apply_rotary_pos_emb_flashatt"
_FIXED = (
    "python -m pip install 'transformers>=4.50': 4.49's Qwen2.5-VL gives flash-attention's rotary "
    "float32 beside bfloat16; bf16 does not change that"
)
_STEPS = (
    Do(
        "y.to(x.dtype) for what is written into x, in the line that failed (x[mask] = y, "
        "x.masked_scatter(mask, y)): features of the tower come in another dtype",
        "none",
        when=("Index put", "masked_scatter", "index_copy", "scatter("),
    ),
    Do("bf16", "none: one dtype for weights and autocast"),
    Do(
        'batch["pixel_values"] = batch["pixel_values"].to(model.dtype), in the collator or in '
        "front of the call: the images come as float32",
        "none",
        when=_IMAGES,
    ),
    Do(
        "load_half",
        "none: the whole model in one dtype; pixel_values.to(model.dtype) beside it",
        unless=_IMAGES,
    ),
    Do("run evaluation and generation under the same autocast as training"),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """In a loop of one's own the call can be wrapped; a trainer does so where it is told to."""
    if _ROTARY in facts.trace and "cos/sin" in facts.message:
        kernel = Do("sdpa", "slower; the release as it is: its rotary needs no flash-attention")
        newer = (Do(_FIXED, "none"),) if "qwen2_5_vl" in facts.trace else ()
        # LLaMA-Factory's own check of releases may refuse a newer one.
        return (kernel, *newer) if facts.framework == "LLaMA-Factory" else (*newer, kernel)
    trains = facts.phase in ("forward", "backward", "step")
    steps: tuple[Do, ...] = _STEPS[:-1] if trains else _STEPS
    if "oldcard" in facts.said:  # it has no bfloat16
        steps = tuple(replace(d, action="fp16") if d.action == "bf16" else d for d in steps)
        steps = tuple(d for d in steps if d.action != "load_half")
    return (*_CASTS, *steps) if facts.framework in ("", "accelerate") else steps


FAILURE = Known(
    code="VG526",
    name="explain-dtypes",
    title="Two dtypes meet in one operation",
    zh="同一运算中出现两种数据类型",
    why="a part of the model is in another dtype than what flows into "
    "it: a tower or head loaded in float32, images cast to half, "
    "or autocast that is off in this phase",
    do=_do,
    wrong="Casting inside the model's code hides a tower that was loaded in the wrong dtype.",
    signs=(
        Sign("cannot be converted to type at::"),
        Sign("Promotion for Float8 Types is not supported"),
        Sign("must have the same dtype"),
        Sign("to have the same dtype"),
        Sign("expected scalar type"),
        Sign("should be the same", also=("Input type",)),
        Sign("not implemented for 'Half'"),
        Sign("Expected tensor for argument", also=("to have one of the following scalar types",)),
        Sign("self and mat2 must have the same dtype"),
        Sign("Index put requires the source and destination dtypes match"),
        Sign("expected self and source to have same dtypes"),
        Sign("Found dtype", also=("but expected",)),
        Sign("to have the same dtype, but got"),
        Sign("expected self and mask to have same dtype"),
        Sign("can't be cast to the desired output type"),
        Sign("must be on the same device and the same dtype except `step`"),
        Sign("dtype", also=("does not match", "dtype torch.")),
        Sign("only supports torch.uint8"),
        Sign("only supports torch.bool"),
    ),
    examples=(
        Example(
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="torch 2.13.0's own messages.",
)
