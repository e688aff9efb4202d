"""Rehearsing ``swift sft | pt | rlhf``: what has to be changed on a CPU, and a rank's part.

Top-level imports are light: `describe` runs in the command line's process, without ms-swift.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlmguard.check.reading import python_files
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands, Described
from vlmguard.rehearse.request import Request
from vlmguard_swift import rehearse_table as table
from vlmguard_swift.rehearse_obstacles import many, obstacle
from vlmguard_swift.rehearse_rows import kind_of
from vlmguard_swift.rehearse_rows import shaped as shaped
from vlmguard_transformers.data import cut
from vlmguard_transformers.rehearsal import cpu_flags, harmless
from vlmguard_transformers.rehearsal.cpu_flags import PIXELS
from vlmguard_transformers.rehearsal.shrunk import make as make
from vlmguard_transformers.rehearsal.shrunk import ready as ready
from vlmguard_transformers.rehearsal.shrunk import remote as remote

NAME = "ms-swift"
HARMLESS, REASONS = harmless.HARMLESS, harmless.REASONS
DROPS = True
ENDING = True
_GENERATES = ("grpo", "gkd")
MOST_PIXELS = 12845056
"""Of an image where nothing says otherwise: Qwen2-VL's own limit."""
REWARDS = "rewards of other ranks' completions: one rank's own stand for them"
_CODE = ("external_plugins", "custom_register_path", "model_kwargs_file")


def describe(values: Values, entry: str, files: Files) -> Described:
    """What the command says of its model, data and loop."""
    kind = str(values.get("rlhf_type") or "") if entry == "rlhf" else ""
    batch = values.get("per_device_train_batch_size", 1)
    shuffles = values.get("dataset_shuffle", True) or values.get("train_dataloader_shuffle", True)
    code = [f"--{name} {' '.join(map(str, many(values.get(name))))}" for name in _CODE
            if values.given.get(name)]  # fmt: skip
    return Described(
        model=str(values.get("model") or ""),
        data=tuple(str(name) for name in many(values.get("dataset"))),
        batch=batch if isinstance(batch, int) else 1,
        shuffled=bool(shuffles),
        generates=kind in _GENERATES,
        row=kind_of(values, kind),
        paired=_together(values, kind),
        evaluates=_evaluates(values, kind) and not values.true("predict_with_generate"),
        generates_at_evaluation=_evaluates(values, kind) and values.true("predict_with_generate"),
        evaluated=tuple(str(name) for name in _many(values.get("val_dataset"))),
        fewest=int(batch) if values.true("dataloader_drop_last") else 1,
        code=tuple(code),
        packs=values.true("packing"),
        obstacle=obstacle(values, kind),
    )


def _evaluates(values: Values, kind: str) -> bool:
    """While it trains; not where it trains on what it generates."""
    share = values.get("split_dataset_ratio", 0)
    when = values.get("eval_strategy") or values.get("save_strategy") or "steps"
    rows = bool(values.get("val_dataset")) or (isinstance(share, float) and share > 0)
    return rows and str(when) != "no" and kind not in _GENERATES


def _many(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def _together(values: Values, kind: str) -> bool:
    """Whether its loss looks at all rows of all ranks at once: no single rank's equals theirs.

    KTO and BCO keep means over the ranks' batches, InfoNCE takes the others' rows for negatives.
    """
    losses = many(values.get("loss_type"))
    together = kind == "kto" or "bco_pair" in losses or values.get("task_type") == "embedding"
    return together or cpu_flags.own_tokens(values)


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    import contextlib

    from vlmguard_transformers.rehearsal import in_rank

    in_rank.load(
        "swift.pipelines", "swift.trainers", "swift.trainers.seq2seq_trainer", "swift.loss_scale",
        "swift.rlhf_trainers", "swift.llm", "trl", "qwen_vl_utils", "vlmguard_swift.profile",
        "vlmguard_swift.batches", "swift.rlhf_trainers.grpo_trainer",
        "multiprocess.managers", "multiprocess.queues",
        "peft.utils.transformers_weight_conversion",
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    )  # fmt: skip
    for name in ("DPOTrainer", "GRPOTrainer", "GKDTrainer"):  # ms-swift loads these lazily
        with contextlib.suppress(Exception):
            getattr(importlib.import_module("swift.rlhf_trainers"), name)
    _main("sft")


def _main(entry: str) -> Any:
    try:
        module = importlib.import_module("swift.pipelines")
    except ImportError:  # ms-swift 3.x
        module = importlib.import_module("swift.llm")
    names = {"sft": ("sft_main",), "pt": ("pretrain_main", "pt_main"), "rlhf": ("rlhf_main",)}
    return next(getattr(module, name) for name in names[entry] if hasattr(module, name))


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass."""
    from vlmguard_swift import model_registry, rewards, substitutes
    from vlmguard_torch.layout import towers
    from vlmguard_transformers.rehearsal import in_rank

    in_rank.enter(scene, in_rank.fsdp(scene.argv, scene.env))
    told = in_rank.watch(scene, lambda model: model_registry.towers(model) or towers.by_name(model))
    rewards.spread(told)
    substitutes.alike()
    with in_rank.arguments(f"swift/cli/{scene.entry}.py", scene.argv):
        _main(scene.entry)()
    return in_rank.finished(told)


def commands(
    request: Request, made: Mapping[str, Any], rows: Path, single: Path, steps: int
) -> Commands:
    """The command as it is run here: itself, and its reference."""
    argv, env = _located(request, made, rows, steps)
    if request.generates:
        _groups(argv, request)
    wrapper = _wrapper(argv, request, made, cpu_flags.written)
    _numbers(argv)
    reference = _reference(argv, request, single)
    return Commands(tuple(argv.words), reference, env, tuple(argv.notes), wrapper)


def own(request: Request, made: Mapping[str, Any], rows: Path, steps: int) -> Commands:
    """The command with its own optimizer, dtype, clipping and accumulation."""
    argv, env = _located(request, made, rows, steps)
    wrapper = _wrapper(argv, request, made, cpu_flags.written_own)
    if argv.get("torch_dtype") is None and (dtype := cpu_flags.dtype(request.model)):
        argv.set("torch_dtype", dtype)
    unseen = (REWARDS,) if request.row == "prompt" else ()
    return Commands(tuple(argv.words), (), env, (), wrapper, unseen)


def _wrapper(
    argv: Argv, request: Request, made: Mapping[str, Any], written: Callable[..., Path]
) -> dict[str, str]:
    """What wraps the model, as small as it is: flags in place, and variables of its launcher."""
    if given := argv.get("deepspeed"):
        argv.set("deepspeed", _known(given))
    return cpu_flags.strategy(argv, request, cpu_flags.ratio(made), written)


def _llamapro(argv: Argv) -> bool:
    return argv.get("tuner_type", "train_type") == "llamapro"


def _config_of(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "config.json").read_text("utf-8")))


def _groups(argv: Argv, request: Request) -> None:
    """Groups of completions that two ranks can share out."""
    argv.drop("generation_batch_size", "steps_per_generation")
    given = argv.get("num_generations") or "8"
    together = request.ranks * request.batch * request.accumulation
    if together == 1:
        argv.set("gradient_accumulation_steps", 2)
        together = 2
    if not given.isdigit() or together % int(given):
        fit = [size for size in (2, 3, 4, 5, 7) if together % size == 0]
        argv.set("num_generations", fit[0] if fit else together)
        argv.notes.append(f"--num_generations {given}: {argv.get('num_generations')}")


def _located(
    request: Request, made: Mapping[str, Any], rows: Path, steps: int
) -> tuple[Argv, dict[str, str]]:
    """The command on the tiny model and these rows, for so many steps; variables to set."""
    place = Path(request.scratch)
    argv = Argv(list(request.argv), frozenset(request.known))
    env = _replaced(argv, request, rows)
    argv.set("model", made["folder"])
    few = int(env.get("MAX_PIXELS", PIXELS))
    cpu_flags.smaller(made["folder"], argv, max(few, PIXELS), request.model)
    _beside(argv, Path(made["folder"]))
    argv.set("dataset", rows)
    argv.drop("val_dataset")
    for name, value in table.EVERY.items():
        argv.set(name, value)
    if request.evaluates:  # once, after all steps
        argv.set("val_dataset", request.evaluated[0])
        argv.set("eval_strategy", "steps")
        argv.set("eval_steps", steps)
        argv.set("per_device_eval_batch_size", 1)
    blocks = argv.get("llamapro_num_new_blocks") or ("4" if _llamapro(argv) else "")
    if blocks.isdigit():  # the number must divide the layers that are left
        layers = int(_config_of(made["folder"]).get("num_hidden_layers") or 1)
        argv.set("llamapro_num_new_blocks", math.gcd(layers, int(blocks)))
    argv.set("max_steps", steps)
    argv.set("gradient_accumulation_steps", request.accumulation)
    argv.set("output_dir", place / "out")
    return argv, env


def _beside(argv: Argv, tiny: Path) -> None:
    """The models beside the one that trains."""
    if argv.values("reward_model") is not None:
        argv.set("reward_model", tiny)
        argv.notes.append("--reward_model: the same tiny model")
    argv.replace(["ref_model"], "the same tiny model")
    server = argv.values("teacher_model_server") is not None
    if server or argv.values("teacher_model") is not None:
        argv.drop("teacher_model_server", "teacher_model_type")
        argv.set("teacher_model", cpu_flags.another(tiny))
        argv.notes.append("--teacher_model: the same tiny model with other weights")


def _replaced(argv: Argv, request: Request, rows: Path) -> dict[str, str]:
    """What a CPU cannot do, taken out of the flags; returns variables to set."""
    for names, why in table.DROPPED:
        argv.replace(names, why)
    attention = argv.get("attn_impl")
    if attention and attention not in ("eager", "sdpa"):
        argv.notes.append(f"--attn_impl {attention}: sdpa")
        argv.set("attn_impl", "sdpa")
    if argv.true("use_vllm"):
        argv.set("use_vllm", "false")
        argv.notes.append("--use_vllm: transformers generates")
    if request.generates:
        argv.set("max_completion_length", 8)
        argv.notes.append("completions of 8 tokens")
    pixels = request.env.get("MAX_PIXELS") or argv.get("max_pixels")
    if pixels and pixels.isdigit() and int(pixels) <= PIXELS:
        return {}
    argv.drop("max_pixels")
    few = PIXELS
    longest = argv.get("max_length") or ""
    if longest.isdigit() and request.data:
        most = int(pixels) if pixels and pixels.isdigit() else MOST_PIXELS
        each = cut.each(Path(request.model))
        few = cut.pixels(rows, request.media_root or request.folder, int(longest), most, few, each)
    if "image" in request.media:
        argv.notes.append(f"images of at most {few} pixels where the processor scales them")
    return {"MAX_PIXELS": str(few)}


def _known(given: str) -> str:
    """The file that a name of ms-swift's own stands for; any other text or file as it is."""
    package = python_files.package("swift") if not given.lstrip().startswith("{") else None
    files = [Path(str(package), own, f"{given}.json") for own in ("config", "llm/ds_config")]
    return next((str(file) for file in files if package and file.is_file()), given)


def _numbers(argv: Argv) -> None:
    """So that weights say what the gradients were: SGD, float32, no clipping, no dropout."""
    full = argv.get("tuner_type", "train_type") == "full"
    argv.drop(*table.ADAPTIVE)
    for name, value in table.NUMBERS.items():
        argv.set(name, value)
    argv.set("learning_rate", 0.1 if full else 1)
    argv.notes.append("plain SGD in float32, without clipping and dropout")


def _reference(argv: Argv, request: Request, rows: Path) -> tuple[str, ...]:
    """No checkpointing; one rank without a wrapper on the same global batch. As many ranks where
    batches are generated (the same wrapper) or looked at together (plain DDP)."""
    other = argv.copy()
    other.drop("gradient_checkpointing_kwargs")
    other.set("gradient_checkpointing", "false")
    other.set("vit_gradient_checkpointing", "false")
    if request.generates:
        return tuple(other.words)
    other.drop(*table.UNWRAPPED)
    if request.paired:
        other.set("ddp_find_unused_parameters", "true")
    else:
        other.set("gradient_accumulation_steps", request.ranks * request.accumulation)
        other.set("dataset", rows)
    return tuple(other.words)
