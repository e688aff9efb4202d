"""FSDP1 flattens frozen and trainable parameters together."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG519",
    name="explain-uniform-grad",
    title="FSDP cannot flatten frozen and trainable parameters together",
    zh="FSDP 不能把冻结与可训练的参数展平在一起",
    why="FSDP1 without use_orig_params flattens a block's parameters "
    "into one; here some of them are frozen and some train (LoRA, "
    "a frozen tower)",
    do=(
        Do("use_orig_params", "none"),
        Do(
            "wrap frozen and trainable modules apart: "
            "peft.utils.other.fsdp_auto_wrap_policy(model)",
            "none",
        ),
        Do("FSDP2 (fsdp_version: 2): it shards each parameter by itself", "none"),
    ),
    wrong="Unfreezing everything makes it run and trains what was to stay.",
    signs=(
        Sign("Must flatten tensors with uniform"),
        Sign("FSDP with use_orig_params=False", also=("requires_grad",)),
        Sign("Cannot flatten integer dtype tensors"),
        Sign("`FlatParameter` requires uniform"),
        Sign("Must flatten tensors with the same dtype"),
        Sign("use_orig_params=False"),
    ),
    examples=(
        Example(
            "ValueError: Must flatten tensors with uniform `requires_grad` "
            "when `use_orig_params=False`",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="huggingface/peft#1702; row 19.",
)
