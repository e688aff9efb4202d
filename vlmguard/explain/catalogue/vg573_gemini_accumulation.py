"""Accumulation that Gemini was not told of."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG573",
    name="explain-gemini-accumulation",
    title="Gemini ran two backwards before one step and was not told to accumulate",
    zh="Gemini：一次 step 之前做了两次 backward，但没有开启梯度累积",
    why="two backwards came before one optimizer step, and this plug-in does not accumulate: the "
    "second one's gradients go where the first one's norm was already taken",
    do=(
        Do("GeminiPlugin(enable_gradient_accumulation=True)", "memory for the gradients"),
        Do("optimizer.step() and zero_grad() after every backward", "smaller batches"),
    ),
    wrong="With max_norm=0 there is no norm and no message: the weights' updates are then off by "
    "100 % to 151 % of what they should be. VG305 stops such a run.",
    signs=(Sign("you are calculating the l2 norm twice"),),
    examples=(
        Example(
            "AssertionError: you are calculating the l2 norm twice",
            "made by causing it, colossalai 0.5.0",
        ),
    ),
    evidence="Own measurement: colossalai 0.5.0, GeminiPlugin(max_norm=1.0), two backwards of "
    "batches with images before one step.",
)
