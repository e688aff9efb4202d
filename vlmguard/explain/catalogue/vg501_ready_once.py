"""DDP gets one parameter's gradient twice."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if facts.use_reentrant is False:
        return (
            "DDP saw one parameter's gradient twice in one backward, although checkpointing is "
            "non-reentrant already: a module or weight is used more than once outside "
            "checkpointing, or another part of the code checkpoints by itself with "
            "use_reentrant=True"
        )
    found = ""
    if facts.find_unused:
        found = ", and find_unused_parameters=True marks it at once"
    return (
        "DDP saw one parameter's gradient twice in one backward: reentrant gradient checkpointing "
        f"runs its own backward for each block{found}; or a module runs twice in one forward"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    freeze = Do("freeze_tower", "the tower no longer learns; helps where it is what runs twice")
    static = Do("static_graph", "none, but not together with gradient accumulation")
    zero = Do("zero2", "none for the result; needs DeepSpeed")
    one = (static,) if (facts.accumulation or 1) == 1 else ()
    if facts.use_reentrant is False:
        own = "look for checkpoint(…, use_reentrant=True) in the model's own code"
        return (Do(own), *one, zero, freeze)
    first = Do("non_reentrant", "none: the same numbers, and the memory saved is the same")
    off = Do("no_find_unused", "none where every batch uses every trainable part")
    extra = (off,) if facts.find_unused else ()
    return (first, *one, *extra, zero, freeze)


FAILURE = Known(
    code="VG501",
    name="explain-ready-once",
    title="DDP got one parameter's gradient twice",
    zh="DDP 在一次反向传播中两次收到同一个参数的梯度（重入式梯度检查点）",
    why=_why,
    do=_do,
    wrong=(
        "Non-reentrant is wrong under ZeRO-3 with frozen parameters on torch ≥ 2.6 with DeepSpeed "
        "≤ 0.19.2. Turning find_unused_parameters off hides the crash "
        "where a block runs twice: the "
        "ranks then hold different weights (VG107)."
    ),
    signs=(Sign("Expected to mark a variable ready only once", releases="torch 1.x to 2.15"),),
    examples=(
        Example(
            "RuntimeError: Expected to mark a variable ready only once. "
            "This error is caused by one "
            "of the following reasons: 1) Use of a module parameter "
            "outside the `forward` function.",
            "made by causing it, torch 2.13.0, two gloo ranks",
        ),
    ),
    evidence=(
        "ms-swift, FlagEmbedding and TRL threads (huggingface/trl#4782); reproduced with ms-swift "
        "3.2.0 and 4.6.0, FlagEmbedding 1.4.2, TRL 0.25.1."
    ),
    prevented=("VG101", "VG107"),
)
