"""A key-value cache is filled while checkpointing recomputes."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEP = "at non-singleton dimension"  # in generation: positions and keys are one apart


def _trains(facts: Facts) -> bool:
    """Whether it failed in a training's step, and not while text was generated."""
    return facts.phase in ("forward", "backward") and "generat" not in facts.trace


def _why(facts: Facts) -> str:
    if not _trains(facts) and (_STEP in facts.message or "batch2 tensor" in facts.message):
        return (
            "text is generated with checkpointing on: transformers switched the cache off on the "
            "way, and what a step computes no longer fits the positions (one apart) or the keys"
        )
    return (
        "the recomputed forward finds the cache already filled: keys are twice as long as queries"
    )


_OFF = (
    Do("no_checkpointing", "more memory; the next step keeps it", when=(_STEP, "batch2 tensor")),
    Do(
        "{place}: model.gradient_checkpointing_disable() on the line before generate, model."
        "gradient_checkpointing_enable() behind it; or generate by vLLM (use_vllm)",
        "none",
        when=(_STEP, "batch2 tensor"),
        kind="off",
    ),
    Do(
        "model.gradient_checkpointing_disable() before generate, model."
        "gradient_checkpointing_enable() behind it; or generate by vLLM (use_vllm)",
        "none",
        when=(_STEP, "batch2 tensor"),
        kind="off",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    cache = Do("no_cache", "none")
    newer = Do("python -m pip install -U transformers: it switches it off by itself", "none")
    return (cache, newer, *_OFF) if _trains(facts) else (*_OFF, cache, newer)


FAILURE = Known(
    code="VG524",
    name="explain-use-cache",
    title="The key-value cache is on while checkpointing recomputes",
    zh="训练时 use_cache 与梯度检查点冲突",
    why=_why,
    do=_do,
    wrong="Where use_cache is False already, look at the mask's shape: another cause.",
    signs=(
        Sign("use_cache=True` is incompatible with gradient checkpointing", also=("Error",)),
        Sign(
            "past_key_values", where="trace", also=("must match the size of tensor b", "checkpoint")
        ),
        Sign("Attention mask should be of size"),
        Sign("Attention weights should be of size"),
        Sign("of batch2 tensor to be", also=("in generate",)),
        Sign("shape of the mask", also=("at index",), no=("get_rope_index", "loss_scale")),
    ),
    examples=(
        Example(
            "ValueError: Attention mask should be of size (1, 1, 2048, "
            "4096), but is torch.Size([1, 1, 2048, 2048])",
            "transformers/models/llama/modeling_llama.py, 4.40",
        ),
    ),
    evidence="huggingface/transformers#30320; row 27.",
)
