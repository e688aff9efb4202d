"""DeepSpeed refuses no_sync under ZeRO-2 and 3."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG513",
    name="explain-no-sync",
    title="DeepSpeed refuses no_sync where gradients are partitioned",
    zh="DeepSpeed ZeRO-2/3 与 no_sync（梯度累积）不兼容",
    why="gradient accumulation enters model.no_sync(), which DeepSpeed "
    "0.16.0 and later refuse under ZeRO-2 and 3, and this "
    "transformers or accelerate does not know that yet",
    do=(
        Do(
            "python -m pip install 'deepspeed==0.15.4': the last that still allows it",
            "none; keeps transformers and accelerate as they are",
        ),
        Do(
            "python -m pip install -U 'transformers>=4.48' 'accelerate>=1.9': the Trainer, and "
            "accelerate in a loop of your own, no longer enter no_sync there; DeepSpeed stays",
            "a newer transformers: look whether the script pins it",
        ),
        Do("zero1", "more memory for gradients"),
    ),
    wrong="Accumulation of 1 makes the error go away and changes the global batch.",
    signs=(
        Sign(
            "no_sync context manager is incompatible with gradient partitioning",
            releases="DeepSpeed ≥ 0.16.0",
        ),
        Sign(
            "no sync context manager is incompatible with gradient", releases="typed off a screen"
        ),
        Sign("illegal to call Engine.step() inside no_sync"),
        Sign("deepspeed/runtime/engine.py in no_sync", where="within"),
        Sign(
            "accelerate/accelerator.py in no_sync", where="within", no=("torch/distributed/fsdp",)
        ),
    ),
    examples=(
        Example(
            "AssertionError: no_sync context manager is incompatible with "
            "gradient partitioning logic of ZeRO stage 3",
            "made by causing it, DeepSpeed 0.19.8",
        ),
    ),
    evidence="deepspeedai/DeepSpeed#6793; row 9.",
)
