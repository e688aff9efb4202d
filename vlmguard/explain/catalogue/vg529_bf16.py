"""This device has no bfloat16."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG529",
    name="explain-bf16",
    title="This card or setup has no bfloat16",
    zh="该显卡或环境不支持 bfloat16",
    why="bfloat16 needs an Ampere card or newer (A100, RTX 30); on "
    "V100 and T4, and where no GPU is visible, it is refused",
    do=(
        Do(
            'LLM(…, dtype="half"), or --dtype half behind the engine\'s command',
            "watch for overflow",
            when=("--dtype=half",),
        ),
        Do(
            "python -c 'import torch; print(torch.cuda.is_available() and "
            "torch.cuda.get_device_name(0))': False is a GPU that torch does not see (VG537), "
            "V100, T4, RTX 20 and older have no bfloat16",
            "none",
            when=("use_cpu",),
            kind="look",
        ),
        Do(
            "fp16",
            "watch for overflow (VG515); such cards have no tf32 and no flash-attention either. On "
            "a card from Ampere on the next step first: torch does not see it",
        ),
        Do(
            "python -c 'import torch; print(torch.cuda.is_available() and "
            "torch.cuda.get_device_name(0))': False is a GPU that torch does not see (VG537), "
            "V100, T4, RTX 20 and older have no bfloat16",
            "none",
            kind="look",
        ),
    ),
    wrong="Where a new card is in the machine, torch does not see it: VG537.",
    signs=(
        Sign("bf16 is only supported on A100+ GPUs", releases="xformers"),
        Sign("Your setup doesn't support bf16"),
        Sign("bf16/gpu"),
        Sign("Bfloat16 is only supported on GPUs with compute capability"),
        Sign("bf16 is not supported"),
        Sign("requires Ampere or a newer GPU"),
        Sign("BFloat16 is not supported on"),
        Sign("bf16 mixed precision requires"),
        Sign("`bf16`", also=("not support",)),
        Sign("Type BF16 is not supported"),
        Sign("Model is not initialized with bf16", also=("Error",)),
        Sign("bfloat16 is not supported on your"),
        Sign("Device does not support bfloat16", releases="torch.autocast"),
        Sign("fp16 mixed precision requires a GPU"),
        Sign("not implemented for 'BFloat16'"),
        Sign("bfloat16", where="else"),
        Sign("bf16", where="else"),
    ),
    examples=(
        Example(
            "ValueError: Your setup doesn't support bf16/gpu. You need to "
            "assign use_cpu if you want to train the model on CPU.",
            "made by causing it, transformers 5.19.0",
        ),
    ),
    evidence="transformers/training_args.py, 5.19.0.",
)
