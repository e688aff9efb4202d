"""What ``vlmguard check`` has to know of a script on transformers' Trainer, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vlmguard.check import hf, loss_flags
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Framework
from vlmguard.check.launcher import Job
from vlmguard.check.reading import model_config, python_files, row_kinds, scripts
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files


class Plain(Framework):
    name = "transformers"
    package = "transformers"
    distribution = "transformers"
    install = "pip install transformers"
    beside = ("torch", "peft", "deepspeed", "accelerate")
    own_code = True

    def entry(self, job: Job, files: Files) -> str:
        module = scripts.module(job.target, files)
        return module if "transformers" in scripts.imports(module) else ""

    def classes(self, entry: str) -> list[python_files.Class]:
        found = scripts.classes(entry)
        if not any("TrainingArguments" in c.name for one in found for c in python_files.order(one)):
            raise CannotTell("this script sets its training arguments in its own code")
        return found

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        draft = Draft(self.name)
        hf.script(values, entry, draft)
        hf.strategy(values, job, files, draft)
        name = values.get("model_name_or_path") or values.get("model_id") or ""
        found = model_config.of(str(name), files, job.env)
        kinds = ("vision", "aligner", "llm") if found.sees else ("llm",)
        draft.trains = dict.fromkeys(kinds, "full")
        draft.doubt("what the script freezes or adapts in its own code")
        if not found.config:
            draft.doubt(f"model: {found.how or 'the script names it in its own code'}")
        if hf.checkpointing(values):
            draft.checkpointed = kinds
        draft.asked = hf.reentrant(values, files)
        draft.use_reentrant = hf.default_reentrant(values) if draft.asked is None else draft.asked
        draft.decided_by = "transformers' default" if draft.asked is None else "the user's flag"
        names = hf.datasets(values, "dataset_name", "train_file", "data_path", "train_data")
        draft.rows, doubts = row_kinds.of(names, files)
        draft.doubts += doubts if found.sees else []
        draft.repeats = "possible" if found.sees and draft.checkpointed else "no"
        hf.accumulation(values, draft)
        loss_flags.own(entry, draft)
        loss_flags.unshifted(values, found.config, draft)
        if draft.strategy == "ddp":
            hf.find_unused(values, draft, plain_model=True)
        return draft


def flags_of(config: Mapping[str, Any]) -> list[str]:
    """A config as flags, as ms-swift's ``parse_yaml_args`` makes them."""
    words: list[str] = []
    for name, value in config.items():
        words.append(f"--{name}")
        if isinstance(value, list):
            words += [str(item) for item in value]
        else:
            words.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return words


FRAMEWORK = Plain()
