"""Gemini's own failures over a parameter without a gradient."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG508",
    name="explain-gemini-unreduced",
    title="Gemini found a parameter without a gradient",
    zh="Gemini：有可训练参数在本次累积窗口内没有得到梯度",
    why="a trainable parameter got no gradient in this window: usually "
    "a vision tower that trains while a batch has no image",
    do=(
        Do(
            "MoeHybridParallelPlugin(tp_size=1, pp_size=1, ep_size=N, zero_stage=1) instead of "
            "GeminiPlugin: an expert that no token reaches has no gradient",
            "other settings",
            when=("experts",),
        ),
        Do(
            "a dummy image in text-only batches: guard_booster(booster, processor=…)",
            "one small forward of the tower",
            unless=("experts",),
        ),
        Do("freeze_tower", "the tower no longer learns", unless=("experts",)),
        Do("TorchDDPPlugin(find_unused_parameters=True)", "more memory: nothing is sharded"),
        Do(
            "model.enable_input_require_grads() before booster.boost, or a newer colossalai, where "
            "it refused inputs without a gradient (assert len(grad_args) > 0)",
            "none",
        ),
        Do("max_norm between 1.0 and 5.0; text first and then vision, in two runs"),
    ),
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
