"""The TrainingArguments of a user's own script, changed for a rehearsal as they are made."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import NotHere
from vlmguard_transformers.rehearsal import cpu_flags
from vlmguard_transformers.rehearsal.harmless import HARMLESS, REASONS

_OFF: Mapping[str, Any] = {
    "logging_steps": 1, "save_strategy": "no", "eval_strategy": "no", "evaluation_strategy": "no",
    "report_to": "none", "dataloader_num_workers": 0, "dataloader_pin_memory": False,
    "disable_tqdm": True, "use_cpu": False, "no_cuda": False, "ddp_backend": None,
    "use_liger_kernel": False, "torch_compile": False, "torch_compile_backend": None,
    "torch_compile_mode": None, "tf32": None, "fp16_full_eval": False, "bf16_full_eval": False,
    "eval_on_start": False, "torch_empty_cache_steps": None, "load_best_model_at_end": False,
    "push_to_hub": False, "auto_find_batch_size": False, "full_determinism": False,
    "dataloader_persistent_workers": False, "dataloader_prefetch_factor": None,
    "dataloader_drop_last": False, "neftune_noise_alpha": None, "group_by_length": False,
    "train_sampling_strategy": "random", "resume_from_checkpoint": None,
    "logging_strategy": "steps", "logging_first_step": False, "predict_with_generate": False,
    "activation_offloading": False, "do_eval": False,
}  # fmt: skip
_NUMBERS: Mapping[str, Any] = {
    "fp16": False, "bf16": False, "optim": "sgd", "optim_args": None, "optim_target_modules": None,
    "max_grad_norm": 0.0, "weight_decay": 0.0, "warmup_steps": 0, "warmup_ratio": 0.0,
    "lr_scheduler_type": "constant", "lr_scheduler_kwargs": {},
}  # fmt: skip
SHOWN = "plain SGD in float32, without clipping, weight decay, warm-up and dropout"
_FIRM = ("fp16", "bf16", "gradient_accumulation_steps", "deepspeed", "fsdp", "auto_find_batch_size",
         "torch_compile", "use_liger_kernel", "accelerator_config")  # fmt: skip
"""Read before training begins: a script that sets them later is another one."""
_SETTLED = "_vlmguard_settled"
_OBSTACLES = {"padding_free": "needs flash attention",
              "packing": "rows are joined, so that which rank gets which is not known",
              "parallelism_config": "subgroups of ranks", "use_vllm": "ranks generate"}  # fmt: skip


class Settled:
    """What becomes of the arguments in this process.

    Attributes:
        spec: as `own_script.Script` has it.
        single: one process, no wrapper; reference: without checkpointing.
        given: the script's own values, by name, of what was changed.
    """

    def __init__(self, spec: Mapping[str, Any], place: Path, single: bool, reference: bool) -> None:
        self.spec, self.place = spec, place
        self.single, self.reference = single, reference
        self.given: dict[str, Any] = {}

    def watch(self) -> None:
        """Change all that are made from now on."""
        import transformers

        kind = transformers.TrainingArguments
        after = kind.__post_init__

        @functools.wraps(after)
        def made(args: Any) -> None:
            self.change(args)
            after(args)
            object.__setattr__(args, _SETTLED, (self._firm(args), self._as_they_are(args)))

        kind.__post_init__ = made

    def change(self, args: Any) -> None:
        """In place."""
        for name, value in self._wanted(args).items():
            if hasattr(args, name):
                self.given.setdefault(name, getattr(args, name))
                object.__setattr__(args, name, value)

    def _wanted(self, args: Any) -> dict[str, Any]:
        wanted = {**_OFF, **_NUMBERS, "output_dir": str(self.place / "out")}
        if isinstance(getattr(args, "logging_dir", None), str):
            wanted["logging_dir"] = str(self.place / "out")
        if getattr(args, "train_sampling_strategy", None) == "sequential":
            wanted["train_sampling_strategy"] = "sequential"
        wanted["max_steps"] = self.spec.get("steps", 1)
        accumulation = self.spec.get("accumulation", 0)
        if accumulation:
            wanted["gradient_accumulation_steps"] = accumulation
        if self.single or self.reference:
            wanted |= {"deepspeed": None, "fsdp": type(getattr(args, "fsdp", ""))(),
                       "fsdp_config": None}  # fmt: skip
        elif getattr(args, "deepspeed", None):
            wanted["deepspeed"] = self._deepspeed(args.deepspeed)
        if self.reference:
            wanted |= {"gradient_checkpointing": False, "gradient_checkpointing_kwargs": None,
                       "ddp_static_graph": None, "ddp_bucket_cap_mb": None,
                       "ddp_find_unused_parameters": None if self.single else True}  # fmt: skip
        elif self.spec.get("bucket") and getattr(args, "ddp_bucket_cap_mb", None) is None:
            wanted["ddp_bucket_cap_mb"] = self.spec["bucket"]
        return wanted

    def _deepspeed(self, given: Any) -> dict[str, Any]:
        """The same configuration for a tiny model in float32."""
        return cpu_flags.plain(
            cpu_flags.small(_whole(given), self.spec.get("shrunk", 1.0), Argv([]))
        )

    def _firm(self, args: Any) -> dict[str, str]:
        return {name: repr(getattr(args, name, None)) for name in _FIRM}

    def again(self, args: Any) -> None:
        """Before training: what the script has set since then is set back.

        Raises:
            NotHere: it has set what was read by then, or the arguments are not of this kind.
        """
        before, values = getattr(args, _SETTLED, (None, {}))
        if before is None:
            raise NotHere(f"{type(args).__name__} does not call what it inherits from "
                          "TrainingArguments: what it asks for is not known")  # fmt: skip
        changed = [name for name, value in self._firm(args).items() if before[name] != value]
        if changed:
            raise NotHere(f"the script sets {changed[0]} after it has made its TrainingArguments")
        for name, value in values.items():
            if name not in _FIRM and getattr(args, name) != value:
                object.__setattr__(args, name, value)

    def _as_they_are(self, args: Any) -> dict[str, Any]:
        """What has been changed, as the arguments themselves have turned it."""
        return {name: getattr(args, name) for name in self._wanted(args) if hasattr(args, name)}


def obstacle(args: Any) -> str:
    """Why a run with these arguments is not rehearsed; "" where it is."""
    for name, why in _OBSTACLES.items():
        if getattr(args, name, None):
            return f"{name}: {why}: not rehearsed"
    return ""


def limits(given: Mapping[str, Any], usual: Callable[[str], Any]) -> list[str]:
    """What the script asks for and was replaced, with the reason, as "name: reason".

    Args:
        given: its own values of what was changed.
        usual: the default of a field.
    """
    found = []
    for name, value in given.items():
        if name in HARMLESS or name in _NUMBERS or value in (None, usual(name)):
            continue
        if str(value) in ("no", "False", str(_OFF.get(name, ""))):
            continue
        if name in _OFF:
            found.append(f"{name}: {REASONS.get(name, 'left out')}")
    return found


def own_numbers(given: Mapping[str, Any]) -> str:
    """The script's own optimizer and dtype, which no pass has used."""
    kind = "bf16" if given.get("bf16") else "fp16" if given.get("fp16") else ""
    optimizer = str(getattr(given.get("optim"), "value", given.get("optim") or ""))
    words = [word for word in (optimizer, kind) if word]
    return f"its own optimizer and dtype ({', '.join(words) or 'own'}): {SHOWN}"


def stage(given: Any) -> dict[str, Any]:
    """A DeepSpeed config as plain data; {} for none."""
    if not given:
        return {}
    return dict(json.loads(json.dumps(_whole(given), default=str)))


def _whole(given: Any) -> Any:
    """A DeepSpeed config, read if it is a file."""
    return given if isinstance(given, dict) else cpu_flags.read(str(given), os.getcwd())
