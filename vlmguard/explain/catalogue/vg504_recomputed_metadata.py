"""Recomputation sees other tensors than the forward did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

if TYPE_CHECKING:
    from vlmguard.core.facts import Run


def _elsewhere(facts: Facts) -> bool:
    """Whether this is known not to be ZeRO-3."""
    if "torch.Size([0])" in facts.message or facts.strategy == "zero3":
        return False
    if facts.strategy not in ("", "unknown") or "saved metadata" in facts.message:
        return True
    return "different number of tensors" in facts.message and not _deepspeed(facts)


def _deepspeed(facts: Facts) -> bool:
    return "deepspeed" in facts.releases or "deepspeed" in facts.said or "deepspeed" in facts.trace


def _why(facts: Facts) -> str:
    if _elsewhere(facts):
        return (
            "the recomputed forward saved other tensors than the first one: the block does not do "
            "the same twice (random state, a cache that is filled, a shape "
            "that depends on the step)"
        )
    return (
        "non-reentrant checkpointing with frozen parameters under ZeRO-3, on a DeepSpeed that "
        "cannot: the recomputation sees parameters that are not gathered (shape [0])"
    )


_NAMES = Do(
    "with torch.utils.checkpoint.set_checkpoint_debug_enabled(True): round one step: it names the "
    "first operator that differs; a cast there is autocast that only one of the two saw (both "
    "under one torch.autocast), another shape is data or a cache that changed in between",
    "slow",
)
_FUSED = Do(
    "grep -rnE 'xformers|SwiGLU|apex|autograd[.]Function|torch[.]compile' --include='*.py' .: a "
    "fused operator in the block, which saves other tensors in the second forward: torch's own in "
    "its place",
    "slower, more memory",
)
_DEVICES = re.compile(r"device\(type='(\w+)'")
_MOVED = Do(
    "no offloading of activations (torchtune: enable_activation_offloading=False): the first "
    "forward kept this tensor on another device than the second",
    "more memory on the card",
)
_CHANCE = "grep -rlE 'preserve_rng_state *= *False' --include='*.py' "
_KEPT = tuple(
    Do(
        f"{_CHANCE}{folder} | xargs sed -i.bak -E 's/(preserve_rng_state *= *)False/\\1True/': the "
        "log says preserve_rng_state=False: what a block draws by chance (tokens to drop) was "
        "drawn anew in the recomputation; nothing found: preserve_rng_state=True where it is set",
        "little: the random state is kept for each block",
        kind="kept",
    )
    for folder in ("{codefolder}", ".")
)
_DRAWN = tuple(
    Do(
        "grep -rnE 'bernoulli|multinomial|torch[.]rand|randperm|np[.]random|random[.]|generator=' "
        f"--include='*.py' {folder}: draw that choice in front of checkpoint(…) and hand it in: "
        "torch's random state is kept for the recomputation, numpy's, Python's and a Generator's "
        "own are not",
        "none",
        kind="drawn",
    )
    for folder in ("{codefolder}", ".")
)
_DTYPES = re.compile(r"'dtype': torch\.(\w+)")


def _other_dtype(message: str) -> bool:
    """Whether the tensors differ in their dtype, not in their shape."""
    return len(set(_DTYPES.findall(message))) > 1 and "Size([0])" not in message


def _do(facts: Facts) -> tuple[Do, ...]:
    if _elsewhere(facts):
        cache = Do("no_cache", "none while it trains")
        plain = Do(
            "reentrant", "does not compare; under plain DDP it brings back 'ready only once'"
        )
        if len(set(_DEVICES.findall(facts.message))) > 1:
            return (_MOVED, plain)
        if _other_dtype(facts.message):
            return (_NAMES, plain, cache)
        if facts.said.get("preserve_rng_state") == "false":
            return (*_KEPT, *_DRAWN, _NAMES)
        if "dropped" in facts.said and "'shape'" in facts.message:
            return (*_DRAWN, _NAMES, cache)
        theirs = facts.framework or "transformers" in facts.trace
        if not theirs and "Number of tensors saved" in facts.message:
            return (_NAMES, _FUSED, plain)  # no model of theirs, so no cache
        if facts.fsdp:
            return (cache, Do("fsdp_checkpointing", "none: FSDP wraps the blocks itself"), plain)
        return (cache, plain, _NAMES) if facts.strategy != "ddp" else (cache, _NAMES, plain)
    return (
        Do(f"python -m pip install -U 'deepspeed>={_newer(facts)}': it can", "none"),
        Do("reentrant", "right under ZeRO-3 only where no checkpointed part runs twice (VG102)"),
        Do("zero2", "more memory: every rank holds all parameters"),
    )


def _newer(facts: Facts) -> str:
    """The oldest newer DeepSpeed on which non-reentrant is known to work for this run."""
    if facts.run is None:
        return "0.19.3"
    from dataclasses import replace

    from vlmguard.compat import cases, choice

    run = cast("Run", facts.run)
    asked = replace(cases.of(run), checkpointing=("non_reentrant",))
    named = choice.newer(asked, "deepspeed") if asked.strategy == "zero3" else ""
    return named or "0.19.3"


FAILURE = Known(
    code="VG504",
    name="explain-recomputed-metadata",
    title="Checkpointing recomputed tensors of another shape",
    zh="梯度检查点重算得到的张量与前向不一致（ZeRO-3 + 冻结参数 + 非重入）",
    why=_why,
    do=_do,
    wrong=(
        "use_reentrant=True is for ZeRO-3 only: under plain DDP it "
        "brings back 'ready only once', and "
        "with a tower that runs twice it is silently wrong under ZeRO-3."
    ),
    signs=(
        Sign(
            "Recomputed values for the following tensors have different metadata",
            releases="torch ≥ 2.1",
        ),
        Sign(
            "A different number of tensors was saved during the original forward and recomputation",
            releases="torch ≥ 2.1",
        ),
        Sign("trying to save more tensors during recomputation"),
        Sign("a tensor that was already unpacked once"),
        Sign("torch.utils.checkpoint: Detected that"),
        Sign("in check_recomputed_tensors_match", where="raised"),
        Sign("recomputed metadata: {'shape'", where="line"),
    ),
    examples=(
        Example(
            "torch.utils.checkpoint.CheckpointError: "
            "torch.utils.checkpoint: Recomputed values for the "
            "following tensors have different metadata than during the forward pass.",
            "torch/utils/checkpoint.py, 2.13.0",
        ),
    ),
    evidence="deepspeedai/DeepSpeed#8148, huggingface/trl#6356; catalogue "
    "row 5; measured on 17 pairs of torch and DeepSpeed.",
    prevented=("VG105",),
)
