"""DDP gets one parameter's gradient twice."""

from __future__ import annotations

from vlmguard.explain.catalogue import variants
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# What transformers' Trainer drives: it makes DDP's arguments from its own.
_TRAINER = ("ms-swift", "LLaMA-Factory", "TRL", "FlagEmbedding", "axolotl", "transformers")


def _finds(facts: Facts) -> bool:
    """Whether DDP looks for unused parameters: the Trainer's default for a model inside PEFT."""
    told = facts.find_unused
    wrapped = "lora" in facts.tuning.lower() or "peft/" in facts.trace
    # LLaMA-Factory switches it off for LoRA.
    return told is True or (
        told is None
        and wrapped
        and facts.framework in _TRAINER
        and facts.framework != "LLaMA-Factory"
    )


def _static(facts: Facts) -> bool:
    """Whether DDP's static graph can be asked for: of the Trainer since transformers 5."""
    if (facts.accumulation or 1) > 1:
        return False
    major = facts.releases.get("transformers", "").partition(".")[0]
    return facts.framework not in _TRAINER or (major.isdecimal() and int(major) >= 5)


def _why(facts: Facts) -> str:
    found = ""
    if _finds(facts):
        found = ", and find_unused_parameters=True marks it at once"
        if facts.find_unused is None:
            found += " (the Trainer's default for a model inside PEFT)"
    if facts.use_reentrant is False:
        return (
            "DDP saw one parameter's gradient twice in one backward, although checkpointing is "
            "non-reentrant already: a module or weight is used more than once or outside of "
            f"forward{found}; or another part of the code checkpoints by itself with "
            "use_reentrant=True"
        )
    return (
        "DDP saw one parameter's gradient twice in one backward: reentrant gradient checkpointing "
        f"runs its own backward for each block{found}; or a module runs twice in one forward"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    freeze = Do("freeze_tower", "the tower no longer learns; helps where it is what runs twice")
    static = Do("static_graph", "none, but not together with gradient accumulation")
    zero = Do("zero2", "none for the result; needs DeepSpeed")
    off = Do("no_find_unused", "none where every batch uses every trainable part")
    one = (static,) if _static(facts) else ()
    if facts.use_reentrant is False:
        plain = Do("no_checkpointing", "more memory for activations")
        own = Do(
            "grep -rnE 'checkpoint\\(|use_reentrant' --include='*.py' .: a call of the model's own "
            "code that does not switch use_reentrant off",
            "none",
        )
        others = facts.find_unused is not False and facts.framework in _TRAINER
        late = (off,) if others else ()  # torch's own default, outside of the Trainer
        tower = (freeze,) if facts.vision else ()
        return (*((off, *one) if _finds(facts) else (*one, *late)), plain, zero, *tower, own)
    first = variants.non_reentrant(facts, "none: the same numbers, and the same memory is saved")
    extra = (off,) if _finds(facts) else ()
    return (first, *extra, *one, zero, freeze)


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
