"""Which changes a run has made already, as far as its log tells: they are not advised again."""

from __future__ import annotations

import re
from collections.abc import Callable

from vlmguard.explain import projects
from vlmguard.explain.logfacts import Facts


def _said(facts: Facts, value: str, *names: str) -> bool:
    return any(facts.said.get(name, "").lower() == value for name in names)


def _frozen(facts: Facts) -> bool:
    """The tower and, unless the log says that it trains, the aligner."""
    aligner = _said(facts, "false", "freeze_aligner", "freeze_multi_modal_projector")
    return facts.freeze_tower is True and not aligner


# A frozen tower keeps nothing for a backward: checkpointing it saves next to nothing.
_SO: dict[str, Callable[[Facts], bool]] = {
    "non_reentrant": lambda f: f.use_reentrant is False,
    "reentrant": lambda f: f.use_reentrant is True,
    "find_unused": lambda f: f.find_unused is True,
    "no_find_unused": lambda f: f.find_unused is False,
    "static_graph": lambda f: f.static_graph is True,
    "no_static_graph": lambda f: f.static_graph is False,
    "checkpointing": lambda f: f.checkpointing is True,
    "tower_checkpointing": lambda f: _said(f, "true", "vit_gradient_checkpointing") or _frozen(f),
    "no_tower_checkpointing": lambda f: _said(f, "false", "vit_gradient_checkpointing"),
    "freeze_tower": lambda f: _frozen(f),
    "load_half": lambda f: _said(f, "bfloat16", "torch_dtype", "dtype"),
    "zero1": lambda f: f.zero == 1,
    "zero2": lambda f: f.zero == 2,
    "zero3": lambda f: f.zero == 3,
    "lora": lambda f: "lora" in f.tuning.lower(),
    "bf16": lambda f: _said(f, "true", "bf16"),
    "all_linear": lambda f: (
        _said(f, "all", "lora_target")
        or _said(f, "all-linear", "target_modules", "lora_target_modules")
    ),
    "sdpa": lambda f: _said(f, "sdpa", "flash_attn", "attn_impl", "attn_implementation"),
    "eager": lambda f: (
        _said(f, "eager", "attn_impl", "attn_implementation") or _said(f, "disabled", "flash_attn")
    ),
    "workers": lambda f: _said(f, "0", "dataloader_num_workers"),
    "offload": lambda f: _said(f, "cpu", "offload"),
    "four_bits": lambda f: (
        _said(f, "4", "quantization_bit", "quant_bits") or _said(f, "true", "load_in_4bit")
    ),
    "zero3_offload": lambda f: f.zero == 3 and _said(f, "cpu", "offload"),
    "timeout": lambda f: (f.number("ddp_timeout") or 0) >= 7200,
}


_SETTING = re.compile(r"([A-Z][A-Z0-9_]{3,40}=[\w:.,-]{1,60}) ")
_SET = {"launch_blocking": "CUDA_LAUNCH_BLOCKING=1 ", "workers_crash": "PYTHONFAULTHANDLER=1 "}


def so(action: str, facts: Facts) -> bool:
    """Whether the log says that the run had ``action`` before it failed."""
    known = _SO.get(action)
    had = facts.said.get("env", "").split()
    if had and (asked := _settings(_SET.get(action, action))):
        return all(setting in had for setting in asked)
    return known is not None and known(facts)


def _settings(action: str) -> list[str]:
    """The variables that ``action`` begins with."""
    found: list[str] = []
    at = 0
    while match := _SETTING.match(action, at):
        found.append(match[1])
        at = match.end()
    return found


# What is so where nobody says otherwise: ms-swift 3.0 to 4.6, LLaMA-Factory 0.9.
_DEFAULTS: dict[str, tuple[str, ...]] = {
    "ms-swift": ("checkpointing", "tower_checkpointing", "freeze_tower", "bf16"),
    "LLaMA-Factory": ("checkpointing", "tower_checkpointing", "freeze_tower"),
}
_OTHERWISE: dict[str, Callable[[Facts], bool]] = {
    "checkpointing": lambda f: f.checkpointing is False,
    "tower_checkpointing": lambda f: _said(f, "false", "vit_gradient_checkpointing"),
    "bf16": lambda f: (
        _said(f, "true", "fp16")
        or _said(f, "float16", "torch_dtype", "dtype")
        or _said(f, "fp16", "dtype")
    ),
    "freeze_tower": lambda f: (
        f.freeze_tower is False
        or _said(f, "false", "freeze_aligner", "freeze_multi_modal_projector")
    ),
}


def by_default(action: str, facts: Facts) -> bool:
    """Whether the framework has ``action`` by default and the log does not say otherwise: it is
    advised last, in case that the log leaves out what switched it off."""
    project = projects.of(facts)
    on = project.on if project is not None else _DEFAULTS.get(facts.framework, ())
    return action in on and not _OTHERWISE[action](facts)
