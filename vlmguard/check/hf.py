"""What every framework on Hugging Face's Trainer shares: strategy, configs, DDP's options."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from vlmguard.check.drafted_run import Draft
from vlmguard.check.launcher import Job
from vlmguard.check.reading import scripts
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import known
from vlmguard.core.facts import Strategy


def table(value: Any, files: Files, what: str) -> dict[str, Any]:
    """A dict, JSON text or a JSON file's name → a dict. Raises `Unreadable`."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value:
        return {}
    if not known(value):
        raise Unreadable(f"{what} is not known here")
    if value.lstrip().startswith("{"):
        try:
            found = json.loads(value)
        except ValueError as error:
            raise Unreadable(f"{what}: {error}") from None
    else:
        found = files.data(value)
    if not isinstance(found, dict):
        raise Unreadable(f"{what}: not a table")
    return found


_STAGES: tuple[Strategy, ...] = ("zero1", "zero1", "zero2", "zero3")


def stage(config: Mapping[str, Any]) -> Strategy:
    """The strategy of a DeepSpeed config. Stage 0 behaves as stage 1 does in the tables.

    Raises:
        Unreadable: it names no stage.
    """
    zero = config.get("zero_optimization") or {}
    number = zero.get("stage", 0) if isinstance(zero, dict) else zero
    for stage, strategy in enumerate(_STAGES):
        if number == stage:
            return strategy
    raise Unreadable(f"zero_optimization: {number!r} is no stage of ZeRO (0, 1, 2 or 3)")


def accelerate_config(job: Job, files: Files) -> dict[str, Any]:
    """``accelerate launch``'s config file and its flags, flags first. Raises `Unreadable`."""
    found: dict[str, Any] = {}
    name = job.options.get("config_file") or _default_config(job.env, files)
    if name:
        data = files.data(name)
        found = data if isinstance(data, dict) else {}
    flags = dict(job.options)
    if flags.get("multi_gpu"):
        found["distributed_type"] = "MULTI_GPU"
    if flags.get("use_deepspeed"):
        found["distributed_type"] = "DEEPSPEED"
    if flags.get("use_fsdp"):
        found["distributed_type"] = "FSDP"
    for name in ("num_processes", "num_machines"):
        if str(flags.get(name, "")).isdigit():
            found[name] = int(flags[name])
    inner = dict(found.get("deepspeed_config") or {})
    for name in ("zero_stage", "deepspeed_config_file"):
        if name in flags:
            inner[name] = flags[name]
    if inner:
        found["deepspeed_config"] = inner
    if "fsdp_version" in flags:
        found.setdefault("fsdp_config", {})["fsdp_version"] = flags["fsdp_version"]
    return found


def _default_config(env: Mapping[str, str], files: Files) -> str:
    """The file that ``accelerate config`` leaves, and ``accelerate launch`` reads."""
    home = env.get("HF_HOME") or os.path.join(env.get("HOME", "~"), ".cache", "huggingface")
    path = os.path.join(home, "accelerate", "default_config.yaml")
    return path if known(path) and files.there(path) else ""


def environment(env: Mapping[str, str]) -> dict[str, Any]:
    """What accelerate reads where no launcher of its has set it: a config as `accelerate_config`
    gives one."""
    on = {name for name in ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP")
          if env.get(name, "").lower() in ("true", "1", "yes", "y", "on", "t")}  # fmt: skip
    if "ACCELERATE_USE_DEEPSPEED" in on:
        inner = {"zero_stage": env.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2"),
                 "deepspeed_config_file": env.get("ACCELERATE_DEEPSPEED_CONFIG_FILE")}  # fmt: skip
        return {"distributed_type": "DEEPSPEED", "deepspeed_config": inner}
    if "ACCELERATE_USE_FSDP" in on:
        version = env.get("FSDP_VERSION", "1")
        return {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": version}}
    return {}


def strategy(values: Values, job: Job, files: Files, draft: Draft) -> Mapping[str, Any]:
    """Sets the draft's strategy and world size; gives DeepSpeed's config. Raises `Unreadable`."""
    launched = "accelerate" in job.chain
    accelerate = accelerate_config(job, files) if launched else environment(job.env)
    draft.world = _world(job, accelerate, draft)
    config = table(values.get("deepspeed"), files, "--deepspeed")
    fsdp = values.get("fsdp")
    kind = str(accelerate.get("distributed_type", "")).upper()
    if config or kind == "DEEPSPEED":
        if not config:
            config = _deepspeed_of(accelerate, files)
        draft.strategy = stage(config)
        zero = config.get("zero_optimization")
        draft.overlap_comm = isinstance(zero, dict) and zero.get("overlap_comm") is True
        draft.clipping = "written" if "gradient_clipping" in config else "missing"
        draft.schedules = not {"optimizer", "scheduler"} & set(config)
        if kind == "DEEPSPEED" and "gradient_clipping" not in config:
            draft.clipping = "written"  # accelerate fills it in
    elif fsdp not in (None, "", [], False) or kind == "FSDP":
        draft.strategy = _fsdp(values, accelerate, files)
    elif draft.world > 1 or job.launched:
        draft.strategy = "ddp"
        if kind in ("NO", "") and "accelerate" in job.chain and draft.world == 1:
            draft.strategy = "single"
    return config


def _deepspeed_of(accelerate: Mapping[str, Any], files: Files) -> dict[str, Any]:
    inner = accelerate.get("deepspeed_config") or {}
    named = inner.get("deepspeed_config_file")
    if named:
        return table(named, files, "deepspeed_config_file")
    number = str(inner.get("zero_stage", 2))
    if not number.isdigit():
        raise Unreadable("zero_stage is not known here")
    return {"zero_optimization": {"stage": int(number)}, **inner}


def _fsdp(values: Values, accelerate: Mapping[str, Any], files: Files) -> Strategy:
    config = table(values.get("fsdp_config"), files, "--fsdp_config")
    config = config or accelerate.get("fsdp_config") or {}
    version = config.get("fsdp_version", config.get("version", 1))
    return "fsdp2" if str(version) == "2" else "fsdp"


def _world(job: Job, accelerate: Mapping[str, Any], draft: Draft) -> int:
    if isinstance(accelerate.get("num_processes"), int):
        return int(accelerate["num_processes"])
    if job.world is not None:
        return job.world
    for doubt in job.doubts:
        draft.doubt(doubt)
    if job.launched:
        draft.doubt("the number of ranks is not known: judged as for more than one")
        return 2
    return 1


def find_unused(values: Values, draft: Draft, plain_model: bool) -> None:
    """DDP's options, as transformers' Trainer sets them.

    Args:
        plain_model: whether the Trainer gets a PreTrainedModel (PEFT's and wrappers are none).
    """
    given = values.get("ddp_find_unused_parameters")
    on = bool(draft.checkpointed)
    draft.find_unused = bool(given) if given is not None else not (plain_model and on)
    draft.static_graph = bool(values.get("ddp_static_graph"))


def accumulation(values: Values, draft: Draft, default: int | None = 1) -> None:
    """Micro-batches a step; ms-swift fills a batch of 16 where nothing is said."""
    given = values.get("gradient_accumulation_steps")
    if isinstance(given, int):
        draft.accumulation = given
    elif given is None and default is None:
        size = values.get("per_device_train_batch_size", 1)
        size = size if isinstance(size, int) else 1
        draft.accumulation = max(1, math.ceil(16 / size / max(draft.world, 1)))
    elif isinstance(given, str) and given.isdigit():
        draft.accumulation = int(given)


def reentrant(values: Values, files: Files) -> bool | None:
    """What the user asked for; None for a default. Raises `Unreadable`."""
    for name in ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"):
        found = table(values.get(name), files, f"--{name}").get("use_reentrant")
        if found is not None:
            return str(found).lower() in ("true", "1")
    return None


def releases(*names: str) -> dict[str, str]:
    """Distribution → installed version."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def older(release: str | None, than: str) -> bool:
    """Whether a release comes before another; an unknown one does not."""
    from packaging.version import InvalidVersion, Version

    try:
        return release is not None and Version(Version(release).base_version) < Version(than)
    except InvalidVersion:
        return False


_MATTERS = ("gradient_checkpointing", "gradient_checkpointing_kwargs", "deepspeed", "fsdp",
            "fsdp_config", "ddp_find_unused_parameters", "ddp_static_graph", "use_peft",
            "gradient_accumulation_steps", "activation_checkpointing",
            "activation_checkpointing_kwargs", "model_name_or_path")  # fmt: skip


def script(values: Values, module: str, draft: Draft) -> None:
    """What a script sets on its arguments in its own code comes last."""
    made = scripts.made(module)
    if made is not None:  # the script makes its arguments itself, so flags do not count
        draft.in_code += list(values.fields)
        draft.unread += [f"{name}, which the script computes" for name in made.other
                         if name in _MATTERS]  # fmt: skip
    told, other = scripts.overrides(module)
    for name, value in told.items():
        if name in values.fields and name in _MATTERS:
            values.given[name] = value
            draft.in_code.append(name)
            draft.doubt(f"the script itself sets {name} to {value}")
    for name in other:
        if name in values.fields and name in _MATTERS:
            draft.in_code.append(name)
            draft.doubt(f"the script itself sets {name}, to what is not known")


def default_reentrant(values: Values) -> bool:
    """What transformers' ``gradient_checkpointing_enable`` asks for where nobody does [read]."""
    return older(values.releases.get("transformers"), "5.0")


def checkpointing(values: Values) -> bool:
    """The Trainer's flag, under both of its names (transformers 5.23 renamed it)."""
    return values.true("activation_checkpointing") or values.true("gradient_checkpointing")


def datasets(values: Values, *names: str) -> list[str]:
    """Data sets that a command names, under any of ``names``."""
    found: list[str] = []
    for name in names:
        value = values.get(name)
        texts = value if isinstance(value, list) else [value]
        found += [text for text in texts if isinstance(text, str) and text]
    return found


def with_config(argv: list[str], flag: str, files: Files) -> tuple[list[str], dict[str, str]]:
    """A YAML file behind ``flag`` as flags in front of the others (which win), and its ``env``.

    Raises:
        Unreadable: the file cannot be read.
    """
    if flag not in argv:
        return argv, {}
    at = argv.index(flag)
    data = config_of(argv, flag, files)
    env = {str(k): str(v) for k, v in (data.pop("env", None) or {}).items()}
    return [*flags(data), *argv[:at], *argv[at + 2 :]], env


def config_of(argv: list[str], flag: str, files: Files) -> dict[str, Any]:
    """The table in the file behind ``flag``; {} without it. Raises `Unreadable`."""
    at = argv.index(flag) + 1 if flag in argv else len(argv)
    data = files.data(argv[at]) if at < len(argv) else {}
    if not isinstance(data, dict):
        raise Unreadable(f"{argv[at]}: not a table")
    return data


def flags(config: Mapping[str, Any]) -> list[str]:
    """A table as flags; nothing for null."""
    words: list[str] = []
    for name, value in config.items():
        if value is None:
            continue
        words.append(f"--{name}")
        if isinstance(value, list):
            words += [str(item) for item in value]
        else:
            words.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return words
