"""What ``vlmguard check`` has to know of ms-swift (3.0 – 4.6). Nothing of it is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vlmguard.check import hf, loss_flags
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Edit, Framework
from vlmguard.check.launcher import Job, count
from vlmguard.check.reading import python_files, row_kinds
from vlmguard.check.reading.fields import Field, Values, Wrong
from vlmguard.check.reading.named_files import Files
from vlmguard.core.findings import Finding
from vlmguard_swift import check_registry as registry
from vlmguard_transformers.check import flags_of

_CLASSES = {
    "sft": (("swift.arguments.sft_args", "SftArguments"),
            ("swift.llm.argument.train_args", "TrainArguments")),
    "pt": (("swift.arguments.pretrain_args", "PretrainArguments"),
           ("swift.llm.argument.train_args", "TrainArguments")),
    "rlhf": (("swift.arguments.rlhf_args", "RLHFArguments"),
             ("swift.llm.argument.rlhf_args", "RLHFArguments")),
}  # fmt: skip
_OTHER = {"infer", "export", "deploy", "app", "eval", "sample", "rollout", "web-ui", "merge-lora",
          "web_ui", "merge_lora"}  # fmt: skip
_TOWERS = {"vision": "freeze_vit", "aligner": "freeze_aligner", "llm": "freeze_llm"}
_FLAGS = {"vision": "--freeze_vit", "aligner": "--freeze_aligner", "llm": "--freeze_llm"}
_DEEPSPEED = ("zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload")


class Swift(Framework):
    name = "ms-swift"
    package = "swift"
    distribution = "ms-swift"
    install = "pip install '/path/to/vlmguard[swift]'"
    beside = ("torch", "transformers", "peft", "deepspeed", "trl", "accelerate")

    def entry(self, job: Job, files: Files) -> str:
        target = job.target
        found = re.fullmatch(r"(swift|megatron) ([\w-]+)", target)
        if found:
            return found[2] if found[1] == "swift" else f"megatron {found[2]}"
        found = re.search(r"(?:^|/)swift/cli/(_megatron/)?(\w+)\.py$", target) or re.fullmatch(
            r"-m swift\.cli\.(_megatron\.)?(\w+)", target
        )
        if found:
            return f"megatron {found[2]}" if found[1] else found[2]
        return ""

    def trains(self, entry: str) -> str:
        if entry.startswith("megatron ") and entry.split()[1] not in _OTHER:
            return ""
        if entry in _OTHER or entry not in _CLASSES:
            return f"swift {entry} does not train"
        return ""

    def classes(self, entry: str) -> list[python_files.Class]:
        if entry.startswith("megatron"):
            raise CannotTell("Megatron: not guarded, and not judged")
        for module, name in _CLASSES[entry]:
            found = python_files.find(module, name)
            if found is not None:
                return [found]
        raise CannotTell("this release of ms-swift keeps its arguments where they were not found")

    def argv(self, job: Job, files: Files) -> tuple[list[str], Job]:
        """ms-swift's launcher turns a config into flags; its ENV sets what is not set."""
        ray = job.env.get("RAY_SWIFT_ARGS")
        if ray:
            return [str(word) for word in json.loads(ray)], job
        argv = list(job.argv)
        if not argv or not argv[0].endswith((".json", ".yaml", ".yml")):
            return argv, job
        config = files.data(argv[0])
        if not isinstance(config, dict):
            raise Wrong(f"{argv[0]}: not a table")
        env = {str(k): str(v) for k, v in (config.pop("ENV", None) or {}).items()}
        env = {**env, **job.env}
        if job.target.startswith("swift ") and ("NPROC_PER_NODE" in env or "NNODES" in env):
            job = replace(job, launched=True, nodes=count(env.get("NNODES", "1")),
                          per_node=count(env.get("NPROC_PER_NODE", "1")))  # fmt: skip
        job = replace(job, call=replace(job.call, env=env))
        return [*flags_of(config), *argv[1:]], job

    def refused(self, rest: Sequence[str], fields: Mapping[str, Field]) -> str:
        return f"remaining_argv: {list(rest)}"

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        draft = Draft(self.name, tuning=_text(values, "tuner_type", "train_type") or "lora")
        model = registry.model(values, files, job.env)
        self._strategy(values, job, files, draft)
        self._towers(values, model, draft)
        self._checkpointing(values, job, files, draft)
        found, doubts = row_kinds.of(values.get("dataset") or (), files)
        draft.rows = found
        if draft.trains.get("vision") is not None:
            draft.doubts += doubts
        draft.pads_itself = registry.pads(model, draft.strategy)
        if values.true("chord_sft_dataset"):
            draft.forwards = 2
            draft.rows = row_kinds.Rows()
        draft.repeats = _repeats(model, draft)
        draft.doubts += [] if model.how.startswith("config") else [f"model: {model.how}"]
        hf.accumulation(values, draft, default=None)
        if draft.strategy == "ddp":
            hf.find_unused(values, draft, plain_model=draft.tuning == "full")
        self._unjudged(values, draft)
        _smoothed(values, draft)
        draft.generates = _generates(values, entry)
        return draft

    def _strategy(self, values: Values, job: Job, files: Files, draft: Draft) -> None:
        config = python_files.package("swift")
        known = values.get("deepspeed")
        if known in _DEEPSPEED and config is not None:
            for folder in (config / "config", config / "llm" / "ds_config"):
                path = folder / f"{known}.json"
                if path.is_file():
                    values.changed["deepspeed"] = values.given["deepspeed"] = str(path)
        fsdp = values.get("fsdp")
        if (
            isinstance(fsdp, str)
            and fsdp
            and hf.older(values.releases.get("ms-swift"), "4.0") is False
        ):
            path = config / "config" / "fsdp2.json" if fsdp == "fsdp2" and config else fsdp
            told = hf.table(str(path), files, "--fsdp") if str(path).endswith(".json") else {}
            values.given["fsdp_config"] = told.get("fsdp_config", {"fsdp_version": 2})
        hf.strategy(values, job, files, draft)
        if not job.launched and draft.world == 1 and not job.chain:
            draft.doubt("one process: without NPROC_PER_NODE ms-swift starts no ranks")

    def _towers(self, values: Values, model: registry.Known, draft: Draft) -> None:
        how = "full" if draft.tuning == "full" else "adapters"
        if model.multimodal is None:
            draft.doubt("whether the model has a vision tower")
        if not model.multimodal:
            draft.trains = {"llm": how}
            return
        kinds = ("vision", "aligner", "llm") if model.sees else ("audio", "aligner", "llm")
        flags = {**_TOWERS, "audio": "freeze_vit"}
        draft.trains = {kind: "" if values.get(flags[kind], kind != "llm") else how
                        for kind in kinds}  # fmt: skip

    def _checkpointing(self, values: Values, job: Job, files: Files, draft: Draft) -> None:
        language = values.true("gradient_checkpointing")
        config = values.get("fsdp_config")
        if draft.strategy.startswith("fsdp") and isinstance(config, dict):
            language = language and not config.get("activation_checkpointing")
        vision = values.get("vit_gradient_checkpointing")
        vision = language if vision is None else bool(vision)
        draft.checkpointed = tuple(
            kind for kind in draft.trains if (language if kind == "llm" else vision)
        )
        draft.asked = hf.reentrant(values, files)
        draft.decided_by = "the user's flag" if draft.asked is not None else "ms-swift's default"
        plain = draft.strategy == "ddp" and not hf.older(values.releases.get("ms-swift"), "3.6")
        draft.use_reentrant = draft.asked if draft.asked is not None else not plain

    def _unjudged(self, values: Values, draft: Draft) -> None:
        sizes = ("sequence_parallel_size", "deepspeed_autotp_size", "tensor_parallel_size")
        for name in sizes:
            size = values.get(name)
            if isinstance(size, int) and size > 1:
                draft.doubt(f"--{name} {size}: subgroups of ranks are not judged")
        for name in ("freeze_parameters", "freeze_parameters_regex", "freeze_parameters_ratio",
                     "trainable_parameters", "trainable_parameters_regex", "target_regex",
                     "target_parameters", "modules_to_save"):  # fmt: skip
            if name in values.given and values.get(name):
                draft.doubt(f"--{name}: which weights it names, only the model tells")
        modules = values.get("target_modules") or []
        if draft.tuning != "full" and set(modules) - {"all-linear"}:
            draft.doubt("--target_modules: which towers they are in, only the model tells")
        for name in ("external_plugins", "custom_register_path"):
            if values.given.get(name):
                draft.doubt(f"--{name}: your own code was not run")
        if values.true("use_ray"):
            draft.doubt("--use_ray: workers get their ranks from Ray")

    def frozen(self, word: str) -> list[Edit]:
        return [Edit(_FLAGS[word], "true")] if word in _FLAGS else []


def _generates(values: Values, entry: str) -> bool:
    """GRPO, and evaluation by what the model generates, as the profile reads them in the run."""
    if entry == "rlhf" and values.get("rlhf_type") == "grpo":
        return True
    when = values.get("eval_strategy")
    evaluates = values.get("val_dataset") if when is None else str(when) != "no"
    asked = bool(evaluates) and values.true("predict_with_generate")
    return asked and bool(values.get("ds3_gather_for_generation", True))


def _smoothed(values: Values, draft: Draft) -> None:
    """With smoothed labels neither ranks nor micro-batches are divided by."""
    times = draft.world * draft.accumulation
    if loss_flags.smoothed(values) and times > 1:
        draft.findings.append(Finding(
            "VG622", "warning",
            f"label_smoothing_factor: updates become up to {times} times too large, once for each "
            f"of {draft.world} ranks and {draft.accumulation} micro-batches",
            advice=("--label_smoothing_factor 0",),
            evidence="own runs, ms-swift 4.6.0: 8.0 times with 2 ranks and 4 micro-batches",
        ))  # fmt: skip


def _text(values: Values, *names: str) -> str:
    for name in names:
        found = values.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def _repeats(model: registry.Known, draft: Draft) -> Any:
    vision = draft.trains.get("vision")
    if not vision or "vision" not in draft.checkpointed:
        return "no"
    # The model's own forward calls its tower once for images and once for videos.
    both = any("image" in kind and "video" in kind for kind in draft.rows.kinds)
    return "yes" if both and not registry.encodes(model) else "possible"


FRAMEWORK = Swift()
