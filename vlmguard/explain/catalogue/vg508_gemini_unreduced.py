"""Gemini's own failures over a parameter without a gradient."""

from __future__ import annotations

import math
import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_NAMES = re.compile(r"(?<=\\t)[A-Za-z_]\w*(?:\.\w+)+|(?<=parameters: )[A-Za-z_]\w*(?:\.\w+)+")
_EXPERTS = Do(
    "MoeHybridParallelPlugin(tp_size=1, pp_size=1, ep_size=N, zero_stage=1) instead of "
    "GeminiPlugin: an expert that no token reaches has no gradient",
    "other settings",
)
# The collator puts it in: what the tower sees then has no label, and its gradient is zero.
_BLANK = (
    Do(
        'Image.new("RGB", (336, 336)), in the collator that {main} uses: one, with its placeholder '
        "tokens and labels of -100, in the first row of each batch that has no image",
        "one small forward of the tower",
        kind="blank",
    ),
    Do(
        'Image.new("RGB", (336, 336)), in the collator: one, with its placeholder tokens and '
        "labels of -100, in the first row of each batch that has no image",
        "one small forward of the tower",
        kind="blank",
    ),
)
_GUARD = Do(
    "python -m pip install 'vlmguard[colossalai]', in the run's environment, and the same command "
    "again: import colossalai loads it, and Booster.boost then puts that blank image in by itself, "
    "for models that it knows",
    "one small forward of the tower",
)
_ZERO = "LowLevelZeroPlugin(stage=2) in place of GeminiPlugin(…)"
_WAITS = "parameters are not sharded; where ranks differ (one has images, one none) they wait"
_UNUSED = Do("TorchDDPPlugin(find_unused_parameters=True)", "more memory: nothing is sharded")
_INPUTS = Do(
    "model.enable_input_require_grads() before booster.boost, or a newer colossalai: it refused "
    "inputs without a gradient (assert len(grad_args) > 0)",
    "none",
)
_NORM = Do(
    "GeminiPlugin(max_norm=1.0), and two runs: rows of text with a frozen tower, then rows with "
    "images",
    "a second run",
)


def _parts(facts: Facts) -> list[str]:
    """The model's parts whose parameters the message names, outermost modules, in order."""
    names = [name for name in _NAMES.findall(facts.message) if name.count(".") > 1]
    outer = [n.partition(".")[0] for n in names]
    inner = [".".join(n.split(".")[:2]) for n in names]
    parts = inner if set(outer) <= {"model", "module"} else outer
    return list(dict.fromkeys(parts))[:4]


def _why(facts: Facts) -> str:
    parts = _parts(facts)
    if "experts" in facts.message:
        return (
            "experts of the model train, and one to which no token went in this window got no "
            "gradient"
        )
    if parts:
        return (
            f"parameters of {', '.join(parts)} train and got no gradient in this window: usually "
            "none of its rows had an image"
        )
    return (
        "a trainable parameter got no gradient in this window: usually a vision tower that trains "
        "while a batch has no image"
    )


def _by_flag(facts: Facts) -> Do:
    """ColossalMoE's own flags: its expert ranks divide the ranks and Mixtral's eight experts."""
    return Do(
        f"--plugin hybrid --pp_size 1 --ep_size {math.gcd(facts.world or 8, 8)}: an expert that no "
        "token reaches has no gradient, and this plug-in asks for none",
        "other settings",
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if "experts" in facts.message:
        return (_by_flag(facts) if "ColossalMoE/train.py" in facts.trace else _EXPERTS, _UNUSED)
    parts = _parts(facts)
    freeze = Do("freeze_tower", "the tower no longer learns")
    if parts:
        named = ", ".join(f"model.{part}" for part in parts)
        ours = "; with vlmguard: VLMGUARD_FREEZE=vision" if "vis" in parts[0] else ""
        freeze = Do(
            f"for part in ({named},): part.requires_grad_(False), in front of booster.boost{ours}",
            "they no longer learn",
        )
    more = tuple(
        step
        for word, step in (("grad_args", _INPUTS), ("_calc_global_norm", _NORM))
        if word in f"{facts.message} {facts.trace}"
    )
    flag = " (--plugin zero2)" if "plugin" in facts.typed else ""
    return (*_BLANK, freeze, _GUARD, *more, Do(_ZERO + flag, _WAITS), _UNUSED)


FAILURE = Known(
    code="VG508",
    name="explain-gemini-unreduced",
    title="Gemini found a parameter without a gradient",
    zh="Gemini：有可训练参数在本次累积窗口内没有得到梯度",
    why=_why,
    do=_do,
    wrong="max_norm=0 hides it and corrupts the weights. Accumulation without "
    "enable_gradient_accumulation=True is another failure (VG573); with it, each window's first "
    "batch has to hold an image.",
    signs=(
        Sign("ZERO DDP error"),
        Sign("object has no attribute 'payload'"),
        Sign("assert len(grad_args) > 0", where="trace"),
        Sign("_calc_global_norm", where="trace", also=("AssertionError",)),
        Sign("_calc_global_norm", where="trace", also=("TypeError",)),
    ),
    examples=(
        Example(
            "    assert grad_chunk.l2_norm is not None\nAssertionError",
            "made by causing it, colossalai 0.5.0",
        ),
    ),
    evidence="hpcaitech/ColossalAI#6102, #5290; catalogue row 25. Own "
    "measurement: colossalai 0.5.0.",
    prevented=("VG205", "VG303", "VG304"),
)
