"""This device has no bfloat16."""

from __future__ import annotations

import re

from vlmguard.explain import flags
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_LOOK = (
    "python -c 'import torch; print(torch.cuda.is_available() and torch.cuda.get_device_name(0))'"
)
_OLD = re.compile(r"(?i)\b(?:V100|P100|P40|T4|GTX|(?:RTX )?20[678]0|TITAN)\b|capability 7\.")
_ENGINE = Do(
    'LLM(…, dtype="half"), or --dtype half behind the engine\'s command',
    "watch for overflow",
    when=("--dtype=half",),
)
_UNSEEN = Do(
    "where that prints False: nvidia-smi; python -c 'import torch; print(torch.version.cuda)': "
    "None is a torch without CUDA, a higher number than nvidia-smi's CUDA Version a driver that is "
    "too old",
    "none",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The card decides: it is asked first, unless the message names it."""
    cost = "watch for a loss of nan; such cards have no tf32 and no flash-attention either"
    seen = "cudaseen" in facts.said and "setup doesn't support" in facts.message
    if seen or "oldcard" in facts.said or _OLD.search(facts.message):
        return (_ENGINE, Do("fp16", cost))
    words = flags.say(Do("fp16"), facts)
    return (_ENGINE, Do(f"{_LOOK}: V100, P100, T4, RTX 20 or older: {words}", cost), _UNSEEN)


FAILURE = Known(
    code="VG529",
    name="explain-bf16",
    title="This card or setup has no bfloat16",
    zh="该显卡或环境不支持 bfloat16",
    why="bfloat16 needs an Ampere card or newer (A100, RTX 30); on "
    "V100 and T4, and where no GPU is visible, it is refused",
    do=_do,
    wrong="A card from Ampere on has bfloat16: there torch sees no GPU, or not that one.",
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
