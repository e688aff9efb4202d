"""The loss is no number."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_RATE = re.compile(r"'learning_rate': (\d(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)[,}]")
FASTEST = 0.1  # no fine-tuning that was seen takes a larger step


def _do(facts: Facts) -> tuple[Do, ...]:
    overlap = (
        (Do('"overlap_comm": false in DeepSpeed\'s config', "somewhat slower"),)
        if facts.zero == 2 and facts.framework != "ms-swift"  # whose files have it so
        else ()
    )
    rate = _RATE.search(facts.message)
    fast = rate is not None and float(rate[1]) > FASTEST
    return (
        *((Do("slower", "none"),) if fast else ()),
        Do("bf16", "none on cards from Ampere on; fp16 overflows in vision towers"),
        *overlap,
        Do("sdpa", "slower than flash-attention; tells whether the kernel is at fault"),
        Do("clip", "slower learning"),
        Do("print((batch['labels'] != -100).sum()) of the first bad step: 0 labels give 0/0"),
    )


FAILURE = Known(
    code="VG515",
    name="explain-nan-loss",
    title="The loss or the gradient is no number, step after step",
    zh="损失或梯度连续为 nan（或 loss 0.0 且 grad_norm nan）",
    why="from the first such step on the weights are spoilt or no step "
    "is taken: overflow in float16, rows without a label, a broken "
    "kernel, or a learning rate too high",
    do=_do,
    wrong="A few skipped steps at the start are float16's loss scale finding its value: healthy.",
    signs=(
        Sign("Loss is nan"),
        Sign("Loss is nan, stopping", where="line", releases="DETR, MAE: sys.exit behind it"),
        Sign("Loss is inf, stopping", where="line"),
        Sign("loss is nan, stopping", where="line"),
        Sign("FloatingPointError", beside=("nan",)),
        Sign("FloatingPointError", beside=("NaN",)),
        Sign("loss is nan"),
        Sign("Loss is NaN"),
        Sign("NaN or Inf found in"),
        Sign("nan or inf", also=("grad",)),
        Sign("returned nan values in its", also=("Backward",)),
        Sign("probability tensor contains either `inf`, `nan`"),
        Sign("Stopping training", also=("nan",)),
        Sign("Non-finite loss"),
        Sign("non-finite loss"),
        Sign("Detected NaN"),
        Sign("Loss diverged"),
        Sign("is non-finite, so it cannot be clipped"),
        Sign("probability tensor contains either", where="line"),
        Sign("NaN values found in"),
        Sign("NaN detected"),
        Sign("nan detected"),
        Sign("Nan detected"),
        Sign("NaN found in"),
        Sign("NaN in loss"),
        Sign("nan in loss"),
        Sign("Loss is not finite"),
        Sign("loss is not finite"),
        Sign("Loss is Nan"),
        Sign("loss is NaN"),
        Sign("Infinite loss"),
        Sign("is NaN or Inf"),
        Sign("NaN loss"),
        Sign("loss = NaN"),
        Sign("loss = nan"),
        Sign("loss became nan"),
        Sign("loss became NaN"),
    ),
    examples=(
        Example(
            "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 9.8e-06, 'epoch': 0.03}",
            "transformers/trainer.py, 4.57",
        ),
    ),
    evidence="hiyouga/LlamaFactory#8563; row 12.",
)
