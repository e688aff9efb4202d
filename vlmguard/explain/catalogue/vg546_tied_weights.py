"""Two names share one tensor at saving."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    newer = facts.releases.get("transformers", "").startswith("5")  # saves safetensors only
    return _CLASS if newer else (Do("save_bin", "an older format"), *_CLASS)


_CLASS = (
    Do(
        "_tied_weights_keys on the model's class, or "
        "tie_word_embeddings as the checkpoint's config has it",
        "none",
    ),
    Do(
        "clone one of the two before saving, where they were not to be tied",
        "memory for one more tensor",
    ),
)

FAILURE = Known(
    code="VG546",
    name="explain-tied-weights",
    title="Saving refused: two names share one tensor",
    zh="保存失败：两个参数名共享同一张量（权重绑定）",
    why="safetensors stores each tensor once; here two names "
    "(embeddings and head, or modules_to_save) share memory and "
    "the model does not declare them tied",
    do=_do,
    wrong="Under ZeRO-3 gather first: placeholders of shape [0] all look shared.",
    signs=(
        Sign("Some tensors share memory"),
        Sign("found no suitable name to keep for saving"),
        Sign("Removed shared tensor"),
        Sign(
            "The weights trying to be saved contained shared tensors",
        ),
        Sign("contained shared tensors"),
        Sign("shared tensors that are mismatching"),
        Sign("You are trying to save a non contiguous tensor"),
        Sign("You are trying to save a sparse tensor"),
    ),
    examples=(
        Example(
            "RuntimeError: \n            Some tensors share memory, this "
            "will lead to duplicate memory on disk and potential "
            "differences when loading them again: [{'a', 'b'}].",
            "made by causing it, safetensors 0.8.0",
        ),
    ),
    evidence="safetensors' and transformers' own messages.",
    narrow=2,
)
