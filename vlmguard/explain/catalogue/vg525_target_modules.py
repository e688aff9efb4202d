"""PEFT finds nothing to adapt."""

from __future__ import annotations

import re
from difflib import get_close_matches

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Names of linear layers in the models that are tuned most.
_USUAL = (
    "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj out_proj qkv qkv_proj proj "
    "fc1 fc2 query_key_value dense dense_h_to_4h dense_4h_to_h c_attn c_proj w1 w2 w3 wqkv wo "
    "Wqkv lm_head embed_tokens linear_fc1 linear_fc2 in_proj"
).split()


def _why(facts: Facts) -> str:
    named = re.search(r"Target modules (\{[^{}]{0,400}\}|\S{1,200}) not found", facts.message)
    words = re.findall(r"[\w.]+", named[1]) if named else []
    near = {w: get_close_matches(w, _USUAL, 1, 0.7) for w in words if w not in _USUAL}
    meant = "; ".join(f"{w}: did you mean {n[0]}?" for w, n in near.items() if n)
    said = f" ({meant})" if meant else ""
    return (
        f"target_modules or modules_to_save name nothing in this model{said}, or name a class that "
        "PEFT cannot adapt; names move between releases of transformers"
    )


_ALL = Do(
    "all_linear", "adapters in more places; keep the tower out by freezing or exclude_modules"
)
_LOOK = Do(
    "print(sorted({n.rpartition('.')[2] for n, m in model.named_modules() if "
    "isinstance(m, torch.nn.Linear)})), and take names from there",
    "none",
)
_ENDING = Do(
    "where target_modules is a pattern, such names as its end: "
    r"PREFIX.*\.(?:q_proj|k_proj|v_proj|out_proj|fc1|fc2)$: it matches whole blocks or norms now",
    "none",
)
# Every part that could have an adapter is frozen.
_NONE_LEFT = ("set()", "{}", "[]", "No modules were targeted for adaptation")


def _do(facts: Facts) -> tuple[Do, ...]:
    if facts.framework == "LLaMA-Factory" and any(no in facts.message for no in _NONE_LEFT):
        return (
            Do("freeze_language_model: false", "the language model gets adapters"),
            Do("finetuning_type: full", "no adapters: what is not frozen trains itself"),
        )
    if "is not supported" in facts.message:
        return (_LOOK, _ENDING, _ALL)
    return (_ALL, _LOOK)


FAILURE = Known(
    code="VG525",
    name="explain-target-modules",
    title="PEFT found no module with these names, or none that it can adapt",
    zh="PEFT 找不到指定的目标模块，或不支持其类型",
    why=_why,
    do=_do,
    wrong="all-linear reaches into a tower that was to stay frozen (PEFT ignores freezing).",
    signs=(
        Sign("No lora injected"),
        Sign("Target modules", also=("not found in the base model",)),
        Sign("is not supported. Currently, only the following modules"),
        Sign("No modules were targeted for adaptation"),
        Sign("Please specify `target_modules`"),
        Sign("Target module", also=("is not supported",)),
        Sign("No module targeted"),
        Sign("All modules were excluded"),
        Sign("No `target_modules` passed"),
        Sign("target_modules should be a list"),
        Sign("target_modules should not contain an empty string"),
        Sign("is incompatible with Mamba-based models"),
        Sign("does not support targeting nn.Parameter"),
        Sign("cannot be used when `target_modules` is a str"),
        Sign("Could not detect any layer that supports LoRA"),
        Sign("modules to finetune - please select", releases="unsloth"),
        Sign("layers to finetune - please select", releases="unsloth"),
    ),
    examples=(
        Example(
            "ValueError: Target modules {'q_proj_x'} not found in the base "
            "model. Please check the target modules and try again.",
            "peft/tuners/tuners_utils.py, 0.20.0",
        ),
    ),
    evidence="haotian-liu/LLaVA#1647, huggingface/peft#2250; row 13.",
)
