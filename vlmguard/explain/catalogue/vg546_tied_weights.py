"""Two names share one tensor at saving."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _by_hand(facts: Facts) -> bool:
    """Whether the script itself saves a dictionary: not save_pretrained, not the Trainer."""
    others = ("save_pretrained", "transformers/trainer.py", "accelerate/")
    return "save_file" in facts.trace and not any(name in facts.trace for name in others)


def _why(facts: Facts) -> str:
    if _by_hand(facts):
        return (
            "safetensors stores each tensor once, and the script saves a dictionary whose tensors "
            "lie in one piece of memory: views of one flat buffer, as DeepSpeed and FSDP keep "
            "weights, or weights that are tied"
        )
    return (
        "safetensors stores each tensor once; here two names (embeddings and head, or "
        "modules_to_save) share memory and the model does not declare them tied"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if _by_hand(facts):
        return (_CLONED, _CLONED_ANY, _BY_MODEL)  # the script's own, of a dictionary
    newer = facts.releases.get("transformers", "").startswith("5")  # saves safetensors only
    return _CLASS if newer else (Do("save_bin", "an older format"), *_CLASS)


_COPY = "{k: v.detach().clone().contiguous() for k, v in state_dict.items()}"
_CLONED = Do(
    f"state_dict = {_COPY} on the line before {{place}} (state_dict: what is saved there)",
    "memory for a second copy while it is written",
    kind="cloned",
)
_CLONED_ANY = Do(
    f"state_dict = {_COPY} on the line before save_file(state_dict, …)",
    "memory for a second copy while it is written",
    kind="cloned",
)
_BY_MODEL = Do(
    "safetensors.torch.save_model(model, FILE) in place of save_file: it leaves one name of each",
    "load_model has to read it",
)
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
    why=_why,
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
