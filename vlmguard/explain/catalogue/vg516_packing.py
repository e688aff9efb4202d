"""Packed rows that the attention does not understand."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_PACKS = ("ms-swift", "TRL", "LLaMA-Factory", "axolotl")
# The run's attention is another one, and the message asks for this.
_ASKS = ("requires a flash", "requires flash", "use flash", "flash_attn` to be", "to flash")

_PATCH = Do(
    "train.py in place of train_mem.py, or the call of replace_…_attn… taken out "
    "(grep -rn 'replace_.*attn' --include='*.py' . finds it): {place} replaces the attention of "
    "another release of transformers",
    'slower; flash-attention: attn_implementation="flash_attention_2" in from_pretrained',
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Whoever packs can stop it; elsewhere it is the kernel that is to be another one."""
    plain = Do("no_packing", "more padding, slower")
    kernel = Do("sdpa", "slower; with packing off: sdpa cannot keep packed rows apart")
    newer = Do(
        "python -m pip install -U flash-attn --no-build-isolation (2.6 or newer), and the "
        "transformers that the program's requirements name",
        "time to build",
    )
    if "monkey_patch" in facts.trace:
        return (_PATCH, kernel, newer)
    if any(words in facts.message for words in _ASKS):
        install = "python -m pip install flash-attn --no-build-isolation, where it is not there"
        flash = Do("flash", "none; the kernel must be installed")
        packs = (plain,) if facts.framework in _PACKS else ()
        return (flash, Do(install, "time to build"), *packs)
    return (plain, kernel, newer) if facts.framework in _PACKS else (kernel, newer)


FAILURE = Known(
    code="VG516",
    name="explain-packing",
    title="Packed rows and the attention kernel do not fit",
    zh="样本打包（packing / padding_free）与注意力实现不匹配",
    why="packing or padding-free batches need flash-attention in a "
    "release that knows this model's positions; here shapes of "
    "cu_seqlens or position ids do not fit",
    do=_do,
    wrong="Packing with sdpa or eager runs and lets rows see each other.",
    signs=(
        Sign("cu_seqlens_q must have shape"),
        Sign("cu_seqlens_k must have shape"),
        Sign("cu_seqlens", also=("must",)),
        Sign("padding_free", also=("flash",)),
        Sign("padding free", also=("flash",)),
        Sign("packing", also=("flash",)),
        Sign("packing", also=("not support",)),
        Sign("Padding-free training", also=("supported",)),
        Sign("SDPA does not support Ring attention"),
        Sign("needs --padding_free true"),
    ),
    examples=(
        Example(
            "RuntimeError: cu_seqlens_q must have shape (batch_size + 1)",
            "csrc/flash_attn/flash_api.cpp, flash-attn 2.7",
        ),
    ),
    evidence="modelscope/ms-swift#5255; row 15.",
)
