"""What ``vlmguard check`` has to know of LLaMA-Factory (0.9)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vlmguard.check import hf
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Edit, Framework
from vlmguard.check.launcher import Job, count
from vlmguard.check.reading import model_config, python_files, row_kinds, scripts
from vlmguard.check.reading.fields import Field, Values, Wrong
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import known
from vlmguard.core.findings import Variant
from vlmguard_transformers.check import flags_of

_CLASSES = (("model_args", "ModelArguments"), ("data_args", "DataArguments"),
            ("training_args", "TrainingArguments"), ("finetuning_args", "FinetuningArguments"),
            ("generating_args", "GeneratingArguments"))  # fmt: skip
_FLAGS = {"vision": "freeze_vision_tower", "aligner": "freeze_multi_modal_projector",
          "llm": "freeze_language_model"}  # fmt: skip


class LlamaFactory(Framework):
    name = "LLaMA-Factory"
    package = "llamafactory"
    distribution = "llamafactory"
    install = "pip install llamafactory"

    def entry(self, job: Job, files: Files) -> str:
        found = re.fullmatch(r"(?:llamafactory-cli|lmf) ([\w-]+)", job.target)
        if found:
            return found[1]
        if re.search(r"(?:^|/)llamafactory/(launcher|cli)\.py$", job.target):
            return "train"
        module = scripts.module(job.target, files)
        own = scripts.imports(module) if module else {"llamafactory"}
        if re.search(r"(?:^|/)src/train\.py$", job.target) and job.launched:
            return "train" if "llamafactory" in own else ""
        return ""

    def trains(self, entry: str) -> str:
        return "" if entry == "train" else f"llamafactory-cli {entry} does not train"

    def classes(self, entry: str) -> list[python_files.Class]:
        found = [
            python_files.find(f"llamafactory.hparams.{where}", name) for where, name in _CLASSES
        ]
        if any(one is None for one in found):
            raise CannotTell("this release of LLaMA-Factory keeps its arguments elsewhere")
        return [one for one in found if one is not None]

    def argv(self, job: Job, files: Files) -> tuple[list[str], Job]:
        """A config, then ``key=value`` words over it, as its ``read_args`` does."""
        config = _config(job, files)
        given = {k: v for k, v in (config or {}).items() if v not in (None, "null")}
        argv = list(job.argv) if config is None else flags_of(given)  # without null
        if job.target.startswith(("llamafactory-cli", "lmf")):
            job = self._launched(job)
        return argv, job

    def config(self, job: Job, files: Files) -> tuple[Mapping[str, Any], str]:
        megatron = "Megatron: not guarded, and not judged"
        for name, why in (("USE_MCA", megatron), ("USE_MEGATRON_BRIDGE", megatron),
                          ("USE_V1", "LLaMA-Factory's v1 trainer is not known here")):  # fmt: skip
            if job.env.get(name, "0").lower() in ("1", "true", "y"):
                raise CannotTell(why)
        lenient = job.env.get("ALLOW_EXTRA_ARGS", "0").lower() in ("1", "true", "y")
        refusal = "" if lenient else "Some keys are not used by the HfArgumentParser: {}"
        return _config(job, files) or {}, refusal

    def _launched(self, job: Job) -> Job:
        env = job.env
        if env.get("FORCE_TORCHRUN", "0").lower() not in ("1", "true", "y"):
            return replace(job, launched=True, per_node=None,
                           doubts=("the number of ranks: as many as there are GPUs",))  # fmt: skip
        per = env.get("NPROC_PER_NODE")
        doubts = () if per else ("without NPROC_PER_NODE: as many ranks as there are GPUs",)
        return replace(job, launched=True, per_node=count(per), doubts=doubts,
                       nodes=count(env.get("NNODES", "1")))  # fmt: skip

    def refused(self, rest: Sequence[str], fields: Mapping[str, Field]) -> str:
        return f"Some specified arguments are not used by the HfArgumentParser: {list(rest)}"

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        if (
            "do_train" in values.given and not values.true("do_train")
        ) or "do_train" not in values.given:
            raise CannotTell("do_train is not set: this does not train")
        if values.true("use_kt"):
            raise CannotTell("KTransformers: not judged")
        tuning = str(values.get("finetuning_type") or "lora")
        draft = Draft(self.name, tuning=tuning)
        hf.strategy(values, job, files, draft)
        found = model_config.of(str(values.get("model_name_or_path") or ""), files, job.env)
        self._towers(values, found, draft)
        if not values.true("disable_gradient_checkpointing"):
            draft.checkpointed = tuple(draft.trains)
        given = "use_reentrant_gc" in values.given
        draft.asked = values.true("use_reentrant_gc") if given else None
        draft.use_reentrant = values.true("use_reentrant_gc") and draft.strategy != "fsdp2"
        draft.decided_by = "the user's flag" if given else "LLaMA-Factory's default"
        draft.rows, doubts = self._rows(values, files)
        draft.doubts += doubts if found.sees else []
        draft.pads_itself = "yes"  # its collator puts an image into a batch without media
        draft.repeats = _repeats(draft)
        hf.accumulation(values, draft)
        if draft.strategy == "ddp":
            hf.find_unused(values, draft, plain_model=tuning in ("full", "freeze"))
            if values.get("ddp_find_unused_parameters") is None and tuning == "lora":
                draft.find_unused = False
        return draft

    def _towers(self, values: Values, found: model_config.Model, draft: Draft) -> None:
        how = "full" if draft.tuning in ("full", "freeze") else "adapters"
        if not found.config:
            draft.doubt(f"model: {found.how}")
        kinds = ("vision", "aligner", "llm") if found.sees else ("llm",)
        draft.trains = {kind: "" if found.sees and values.true(_FLAGS[kind]) else how
                        for kind in kinds}  # fmt: skip
        if found.sees and how == "adapters" and values.get("lora_target") in (None, "all"):
            draft.trains["aligner"] = ""  # "all" leaves out the projector's modules
        if draft.tuning == "freeze":
            draft.doubt("finetuning_type freeze: which layers train, only the model tells")

    def _rows(self, values: Values, files: Files) -> tuple[row_kinds.Rows, list[str]]:
        """Names of dataset_info.json in ``dataset_dir`` → the files behind them."""
        asked = hf.datasets(values, "dataset")
        names = [name.strip() for text in asked for name in text.split(",") if name.strip()]
        folder = values.get("dataset_dir") or "data"
        info = os.path.join(str(folder), "dataset_info.json")
        if not isinstance(folder, str) or not known(folder) or not files.there(info):
            return row_kinds.Rows(), [f"{name}: {info} is not here" for name in names]
        table = files.data(info)
        found, unknown = [], []
        for name in names:
            entry = table.get(name) if isinstance(table, dict) else None
            if entry is None:
                raise Unreadable(f"{info}: there is no data set {name}")
            file = entry.get("file_name")
            (found if file else unknown).append(os.path.join(folder, file) if file else name)
        rest = [f"{name}: not on this disk, so the kinds of its rows are not known"
                for name in unknown]  # fmt: skip
        told, doubts = row_kinds.of(found, files)
        return (row_kinds.Rows(missing=told.missing) if unknown else told), doubts + rest

    def variant(self, variant: Variant, values: Values) -> list[Edit]:
        found = [edit for edit in super().variant(variant, values)
                 if edit.flag != "--gradient_checkpointing_kwargs"]  # fmt: skip
        if variant.use_reentrant is not None:
            found.insert(0, Edit("--use_reentrant_gc", str(variant.use_reentrant).lower()))
        return found

    def frozen(self, word: str) -> list[Edit]:
        return [Edit(f"--{_FLAGS[word]}", "true")] if word in _FLAGS else []

    def words(self, edit: Edit, job: Job) -> list[str]:
        """Behind a config, its command line takes ``key=value`` only."""
        if edit.after is not None and job.argv and job.argv[0].endswith((".yaml", ".yml", ".json")):
            return [f"{edit.flag.lstrip('-')}={edit.after}"]
        return super().words(edit, job)


def _config(job: Job, files: Files) -> dict[str, Any] | None:
    """The config file with the ``key=value`` words over it; None where the command has flags."""
    argv = list(job.argv)
    if not argv or not argv[0].endswith((".yaml", ".yml", ".json")):
        return None
    config = files.data(argv[0])
    if not isinstance(config, dict):
        raise Wrong(f"{argv[0]}: not a table")
    for word in argv[1:]:
        key, equals, value = word.lstrip("-").partition("=")
        config[key] = value if equals else "true"
    return config


def _repeats(draft: Draft) -> Any:
    if not draft.trains.get("vision") or "vision" not in draft.checkpointed:
        return "no"
    return "yes" if any("+" in kind for kind in draft.rows.kinds) else "possible"


FRAMEWORK = LlamaFactory()
