"""What ``vlmguard check`` has to know of TRL: its commands, and scripts that use its configs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vlmguard.check import hf, loss_flags
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Framework
from vlmguard.check.launcher import ACCELERATE, Job
from vlmguard.check.reading import model_config, python_files, row_kinds, scripts
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files

_OTHER = ("env", "vllm-serve", "chat", "skills")
# Flags that `trl sft` gives to `accelerate launch`.
_LAUNCH = ("num_processes", "num_machines", "machine_rank", "main_process_ip", "mixed_precision",
           "main_process_port", "config_file", "accelerate_config", "gpu_ids", "zero_stage",
           "multi_gpu", "use_deepspeed", "use_fsdp", "deepspeed_config_file", "fsdp_version",
           "dynamo_backend", "num_cpu_threads_per_process")  # fmt: skip


class Trl(Framework):
    name = "TRL"
    package = "trl"
    distribution = "trl"
    install = "pip install trl"
    own_code = True

    def entry(self, job: Job, files: Files) -> str:
        found = re.fullmatch(r"trl ([\w-]+)", job.target)
        if found:
            return found[1]
        module = scripts.module(job.target, files)
        return module if module and "trl" in scripts.imports(module) else ""

    def trains(self, entry: str) -> str:
        return f"trl {entry} does not train" if entry in _OTHER else ""

    def classes(self, entry: str) -> list[python_files.Class]:
        module = entry if "." in entry else f"trl.scripts.{entry}"
        found = scripts.classes(module)
        if not found:
            if "." not in entry:
                raise CannotTell(f"trl {entry}: this release has no such command")
            raise CannotTell("this script sets its training arguments in its own code")
        return found

    def argv(self, job: Job, files: Files) -> tuple[list[str], Job]:
        """``--config``'s values come before the others; `accelerate`'s flags are taken out."""
        argv, env = hf.with_config(list(job.argv), "--config", files)
        job = replace(job, call=replace(job.call, env={**job.env, **env}))
        if not job.target.startswith("trl "):
            return argv, job
        argv, options = _launch(argv)
        options |= job.options  # those of `rehearse --world`
        named = options.pop("accelerate_config", options.pop("config_file", ""))
        if named:
            shipped = python_files.package("trl")
            own = shipped / "accelerate_configs" / f"{named}.yaml" if shipped else None
            found = str(own) if own is not None and own.is_file() and not files.there(named) else ""
            options["config_file"] = found or named
        world = options.get("num_processes", "")
        job = replace(job, chain=(*job.chain, "accelerate"), launched=True, options=options,
                      per_node=int(world) if world.isdigit() else None)  # fmt: skip
        return argv, job

    def config(self, job: Job, files: Files) -> tuple[Mapping[str, Any], str]:
        """What ``--config`` holds, but for what goes to ``accelerate launch``."""
        told = hf.config_of(list(job.argv), "--config", files)
        handed = _LAUNCH if job.target.startswith("trl ") else ()
        kept = {key: value for key, value in told.items() if key not in ("env", *handed)}
        return kept, "Unknown arguments from config file: {}."

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        peft = values.true("use_peft")
        draft = Draft(self.name, tuning="lora" if peft else "full")
        if "." in entry:
            hf.script(values, entry, draft)
            draft.doubt("what the script freezes or adapts in its own code")
        hf.strategy(values, job, files, draft)
        if job.world is None and draft.world == 2 and not draft.doubts:
            draft.doubt("the number of ranks: as many as there are GPUs")
        found = model_config.of(str(values.get("model_name_or_path") or ""), files, job.env)
        self._towers(values, found, draft)
        if hf.checkpointing(values):
            draft.checkpointed = tuple(draft.trains)
        made = scripts.made(entry) if "." in entry else None
        named = made.one.module.removesuffix("_config") if made else entry
        self._variant(values, files, draft, _trainer(named))
        names = hf.datasets(values, "dataset_name")
        draft.rows, doubts = row_kinds.of(names, files)
        draft.doubts += doubts if found.sees else []
        draft.repeats = "possible" if draft.trains.get("vision") and draft.checkpointed else "no"
        hf.accumulation(values, draft)
        if "." in entry:
            loss_flags.own(entry, draft)
        return draft

    def _towers(self, values: Values, found: model_config.Model, draft: Draft) -> None:
        how = "adapters" if values.true("use_peft") else "full"
        draft.trains = {"llm": how}
        if not found.config:
            draft.doubt(f"model: {found.how or 'the script names it in its own code'}")
        if not found.sees:
            return
        vision = how
        modules = values.get("lora_target_modules") or []
        if how == "adapters" and "all-linear" not in modules:
            vision = ""
            draft.doubt("--lora_target_modules: whether they are in the vision tower too")
        draft.trains = {"vision": vision, "aligner": vision, "llm": how}

    def _variant(self, values: Values, files: Files, draft: Draft, trainer: str) -> None:
        """TRL decides in its trainers: read from their sources."""
        draft.asked = hf.reentrant(values, files)
        draft.use_reentrant = draft.asked
        draft.decided_by = "the user's flag"
        sees = "vision" in draft.trains
        if draft.asked is None:
            own = 'setdefault("use_reentrant", False)' in trainer
            draft.use_reentrant = hf.default_reentrant(values) and not own
            draft.decided_by = "TRL's default" if own else "transformers' default"
        forced = '["use_reentrant"] = True' in trainer and "zero_stage == 3" in trainer
        if draft.strategy == "zero3" and draft.tuning != "full" and forced:
            draft.use_reentrant, draft.decided_by = True, "TRL, for PEFT under ZeRO-3"
        if draft.strategy != "ddp":
            return
        hf.find_unused(values, draft, plain_model=draft.tuning == "full")
        own = sees and "ddp_find_unused_parameters = True" in trainer and not draft.asked
        if own and values.get("ddp_find_unused_parameters") is None:
            draft.find_unused = True


def _launch(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Part `accelerate launch`'s flags from the script's."""
    rest: list[str] = []
    options: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name.startswith("--") and name.lstrip("-").replace("-", "_") in _LAUNCH:
            key = name.lstrip("-").replace("-", "_")
            bare = name in ACCELERATE
            options[key] = value if equals else "true" if bare or not words else words.pop(0)
        else:
            rest.append(word)
    return rest, options


def _trainer(entry: str) -> str:
    """The source of the trainer behind a command; a script's name says which ("dpo_vlm.py")."""
    last = entry.removesuffix(".py").rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    for name in (re.sub(r"_vlm.*$", "", last), "sft"):
        file = python_files.module_file(f"trl.trainer.{name}_trainer")
        if file is not None:
            return file.read_text("utf-8", "replace")
    return ""


FRAMEWORK = Trl()
