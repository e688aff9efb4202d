"""The loss is no number."""

from __future__ import annotations

import re

from vlmguard.explain import already
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_RATE = re.compile(r"'learning_rate': (\d(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)[,}]")
FASTEST = 0.03  # no fine-tuning that was seen takes a larger step, but of a prompt alone


_SOUND = re.compile(r"'loss': '?(?!0(?:\.0{1,8})?['},])\d")
_FIRST = re.compile(r"'loss': '?(\d(?:\.\d{1,20})?(?:e\+?\d{1,3})?\b|\d{5,300}\b)")
HIGHEST = 1e4  # ln of a vocabulary is 12; summed over an accumulation's steps, some thousand
_SPOILT = re.compile(r"'loss': '?(?:nan|0(?:\.0{1,8})?['},])")


def _stepped(facts: Facts) -> bool:
    """Whether the loss was sound beside a first gradient of nan, and none after it: a step was
    taken with that gradient, which float16's loss scale does not let through."""
    if facts.said.get("fp16") == "true":
        return False
    return _SOUND.search(facts.message) is not None and _SPOILT.search(facts.trace) is not None


def _alone(facts: Facts) -> bool:
    """Whether the loss stays sound and the gradient alone is none: no weight takes it up."""
    said = facts.message
    sound = _SOUND.search(said) is not None and "'grad_norm'" in said
    spoilt = _SPOILT.search(facts.trace) is not None or _broken(facts)
    return sound and not spoilt and facts.said.get("fp16") != "true"


def _broken(facts: Facts) -> bool:
    """Whether the very first loss is far above what any vocabulary's cross-entropy can be."""
    first = _FIRST.search(facts.message)
    return first is not None and float(first[1]) > HIGHEST


def _why(facts: Facts) -> str:
    if _broken(facts):
        return (
            "the loss is absurd where it was first printed, and the gradient none: the forward "
            "pass itself is wrong, before any update: weights that were not loaded (or another "
            "checkpoint's), a dtype, or an attention kernel"
        )
    if _stepped(facts):
        return (
            "the loss was still a number when the gradient was none, and the weights are spoilt "
            "since: that step was taken. float16's loss scale would have skipped it, so this is "
            "mostly no overflow of float16 but a wrong backward: gradients that are summed while "
            "they are written (DeepSpeed's overlap_comm), an attention kernel, a row without a "
            "label"
        )
    if _alone(facts):
        return (
            "the loss stays sound and the gradient is none: its backward is wrong (an operation "
            "whose gradient is 0/0 or overflows, a part that was newly initialised, gradients "
            "that are summed while they are written). A step with it would spoil the weights and "
            "the next loss: so none is taken, or the norm alone is; stop the run until it is known"
        )
    if "lossrose" in facts.said:
        return (
            "the loss rose before it was no number: the steps were too large (learning rate, no "
            "clipping), or float16 overflowed; from the first such step on the weights are spoilt"
        )
    half = "" if facts.said.get("bf16") == "true" else "overflow in float16, "
    return (
        f"from the first such step on the weights are spoilt or no step is taken: {half}"
        "rows without a label, a broken kernel, or a learning rate too high"
    )


_ANEW = ", and start again: a run whose weights are nan does not come back"


_ONE = Do(
    "print(trainer.model.cuda().float()(**next(iter(trainer.get_train_dataloader()))).loss) in "
    "front of trainer.train(), started without DeepSpeed: one batch in float32 (with "
    'attn_implementation="sdpa"); a loss below 20: it is the dtype or the kernel; absurd again: '
    "the weights",
    "none",
)
_BACKWARD = Do(
    "torch.autograd.set_detect_anomaly(True) in front of the training's start, for a few steps: it "
    "ends at the first nan and prints the line of the forward pass whose backward made it",
    "slow: for a few steps",
)
_LOADED = Do(
    "the model's own checkpoint (the Instruct one for a chat template), by the class that its "
    "config.json names: a weight that it does not give stays as memory was",
    "none",
)


def _overlap(facts: Facts) -> tuple[Do, ...]:
    if facts.framework == "ms-swift":  # whose files have it so
        return ()
    if facts.zero in (2, 3) or "deepspeed" in facts.said:
        return (Do(f'"overlap_comm": false in DeepSpeed\'s config{_ANEW}', "somewhat slower"),)
    if facts.zero is None and _stepped(facts) and facts.strategy == "" and facts.world != 1:
        where = "(the file behind deepspeed; a run without DeepSpeed: the next step)"
        said = f'"overlap_comm": false in DeepSpeed\'s config {where}{_ANEW}'
        return (Do(said, "somewhat slower"),)
    return ()


# Torch's attention by cuDNN gives gradients of nan: 2.5.0 for all cards (2.5.1 takes it last), 2.11
# to 2.13 on H100 and H200 with a mask (pytorch#139298, #196678).
_CUDNN = re.compile(r"2\.(?:5\.0|1[123]\.\d{1,2})(?![\d.])")
_UNFUSED = Do("eager", "slower, more memory; tells whether torch's fused attention is at fault")


_ASKED = Do(
    "eager",
    "slower, more memory; transformers asks for it in this log: this model's attention is no fused "
    "kernel's, whose padded rows give nan; and start again",
)


def _attention(facts: Facts) -> tuple[Do, ...]:
    """Another kernel than the run's: torch's fused one has had faults of its own."""
    if "eager_advised" in facts.said:
        return ()
    release = facts.releases.get("torch", "")
    fused = already.so("sdpa", facts)
    if "cudnn_sdpa" not in facts.said and not (fused and _CUDNN.match(release)):
        other = Do("sdpa", "slower than flash-attention; tells whether the kernel is at fault")
        return (_UNFUSED,) if fused else (other,)
    newer = "" if release and not release.startswith("2.5.0") else ", or torch 2.5.1"
    switched = Do(
        "torch.backends.cuda.enable_cudnn_sdp(False) at the top of {main}: the attention of cuDNN "
        f"in this torch gives gradients of nan{newer}; and start again: a run whose weights are "
        "nan does not come back",
        "none",
    )
    return (switched, _UNFUSED)


_TOO_FAST = Do(
    "a tenth of the learning rate, and gradients clipped at 1.0 (--lr, --learning_rate; "
    "--grad_clip 1.0, --max_grad_norm 1.0, or torch.nn.utils.clip_grad_norm_(model.parameters(), "
    "1.0) before optimizer.step()): the loss rose before it was no number; stop this run and start "
    "again",
    "slower learning",
)


def _smaller(facts: Facts, rate: float) -> Do:
    """A tenth of the step by which the loss rose, where the log tells it."""
    if not rate:
        return _TOO_FAST
    value = f"{rate / 10:.1e}"
    spelt = {"LLaMA-Factory": f"learning_rate: {value}, max_grad_norm: 1.0"}
    spelt[""] = f"learning_rate={value}, max_grad_norm=1.0"
    typed = spelt.get(facts.framework, f"--learning_rate {value} --max_grad_norm 1.0")
    why = "the loss rose before it was no number; stop this run and start again"
    return Do(f"{typed}: a tenth of the rate that it had there, and clipped: {why}", "slower")


def _do(facts: Facts) -> tuple[Do, ...]:
    rate = _RATE.search(facts.message)
    told = float(rate[1]) if rate is not None else 0.0
    fast = told > FASTEST
    half = Do("bf16", "none on cards from Ampere on; fp16 overflows in vision towers")
    if _broken(facts):
        own = facts.framework in ("", "transformers", "TRL", "accelerate")
        return (
            *((_ONE,) if own else ()),
            half,
            *_attention(facts),
            _LOADED,
            Do("first_nan", "slow: for a few steps"),
        )
    if _alone(facts):
        return (
            _BACKWARD,
            *_overlap(facts),
            *_attention(facts),
            half,
            Do("clip", "slower learning"),
        )
    first = () if _stepped(facts) or "cudnn_sdpa" in facts.said else (half,)
    overlap = _overlap(facts)
    advised = (_ASKED,) if "eager_advised" in facts.said else ()
    return (
        *((Do("slower", "none"),) if fast else ()),
        *((_smaller(facts, told),) if "lossrose" in facts.said and not fast else ()),
        *advised,
        *first,
        *(overlap if "cudnn_sdpa" not in facts.said else ()),
        *_attention(facts),
        *(overlap if "cudnn_sdpa" in facts.said else ()),
        Do("first_nan", "slow: for a few steps"),
        Do("print((batch['labels'] != -100).sum()) of the first bad step: 0 labels give 0/0"),
        *(() if first else (half,)),
        Do("clip", "slower learning"),
    )


FAILURE = Known(
    code="VG515",
    name="explain-nan-loss",
    title="The loss or the gradient is no number, step after step",
    zh="损失或梯度连续为 nan（或 loss 0.0 且 grad_norm nan）",
    why=_why,
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
