"""Rehearsing ``swift sft | pt | rlhf``: what has to be changed on a CPU, and a rank's part.

Top-level imports are light: `describe` runs in the command line's process, without ms-swift.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlmguard.check import sources
from vlmguard.check.fields import Values
from vlmguard.check.files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.framework import Commands, Described
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.scene import Scene
from vlmguard_transformers import rehearse_flags
from vlmguard_transformers.rehearse_flags import PIXELS
from vlmguard_transformers.shrunk import make as make
from vlmguard_transformers.shrunk import ready as ready
from vlmguard_transformers.shrunk import remote as remote

NAME = "ms-swift"
_GENERATES = ("grpo", "gkd")
_PAIRS = ("dpo", "cpo", "simpo", "orpo", "rm")
_SUBGROUPS = ("sequence_parallel_size", "deepspeed_autotp_size", "tensor_parallel_size",
              "context_parallel_size")  # fmt: skip
_CODE = ("external_plugins", "custom_register_path", "model_kwargs_file")
_DROPPED = (
    (("use_cpu", "ddp_backend", "device_map", "max_memory"), ""),
    (("resume_from_checkpoint", "resume_only_model"), "begins at step 0"),
    (("adapters", "ref_adapters"), "the adapter begins anew"),
    (("use_liger_kernel",), "Liger's kernels need a GPU"),
    (("quant_method", "quant_bits", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type",
      "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage", "hqq_axis"),
     "weights are not quantised"),
    (("packing", "packing_length", "packing_num_proc", "padding_free"),
     "needs flash attention: rows stand by themselves"),
    (("torch_compile", "torch_compile_backend", "torch_compile_mode"), "not compiled"),
    (("eval_dataset", "eval_dataset_args", "eval_limit", "eval_generation_config",
      "eval_use_evalscope", "extra_eval_args"), ""),
    (("streaming", "dataset_prefetch"), "rows are read from a file"),
    (("offload_optimizer", "offload_model", "use_flash_ckpt", "move_model_batches"), ""),
    (("vllm_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "sleep_level",
      "vllm_max_model_len", "vllm_server_host", "vllm_server_port", "vllm_server_base_url",
      "vllm_limit_mm_per_prompt", "vllm_enforce_eager", "vllm_enable_prefix_caching"), ""),
    (("load_best_model_at_end", "metric_for_best_model", "predict_with_generate", "eval_steps",
      "early_stop_interval", "save_steps", "num_train_epochs", "create_checkpoint_symlink",
      "push_to_hub", "hub_token", "cached_dataset", "cached_val_dataset", "load_args",
      "interleave_prob", "dataset_shuffle", "val_dataset_shuffle"), ""),
)  # fmt: skip
_EVERY = {
    "split_dataset_ratio": 0, "logging_steps": 1, "save_strategy": "no", "eval_strategy": "no",
    "report_to": "none", "add_version": "false", "check_model": "false", "use_hf": "true",
    "dataloader_num_workers": 0, "dataset_num_proc": 1, "dataset_shuffle": "false",
    "train_dataloader_shuffle": "false", "load_from_cache_file": "false",
}  # fmt: skip
_NUMBERS = {
    "torch_dtype": "float32", "fp16": "false", "bf16": "false", "optim": "sgd",
    "max_grad_norm": 0, "weight_decay": 0, "lora_dropout": 0, "warmup_ratio": 0,
    "lr_scheduler_type": "constant",
}  # fmt: skip
_ADAPTIVE = ("optimizer", "optim", "optim_args", "optim_target_modules", "lr_scheduler_kwargs",
             "lr_scheduler_type", "use_galore", "galore_target_modules", "neftune_noise_alpha",
             "vit_lr", "aligner_lr", "lorap_lr_ratio", "warmup_steps")  # fmt: skip
_UNWRAPPED = ("deepspeed", "fsdp", "fsdp_config", "ddp_find_unused_parameters", "ddp_static_graph",
              "ddp_bucket_cap_mb", "ddp_broadcast_buffers")  # fmt: skip


def describe(values: Values, entry: str, files: Files) -> Described:
    """What the command says of its model, data and loop."""
    kind = str(values.get("rlhf_type") or "") if entry == "rlhf" else ""
    batch = values.get("per_device_train_batch_size", 1)
    shuffles = values.get("dataset_shuffle", True) or values.get("train_dataloader_shuffle", True)
    code = [f"--{name} {' '.join(map(str, _many(values.get(name))))}" for name in _CODE
            if values.given.get(name)]  # fmt: skip
    row = "prompt" if kind in _GENERATES else "pair" if kind in _PAIRS else "chat"
    return Described(
        model=str(values.get("model") or ""),
        data=tuple(str(name) for name in _many(values.get("dataset"))),
        batch=batch if isinstance(batch, int) else 1,
        shuffled=bool(shuffles),
        generates=kind in _GENERATES,
        row=row,
        evaluates=_evaluates(values, kind),
        evaluated=tuple(str(name) for name in _many(values.get("val_dataset"))),
        code=tuple(code),
        packs=values.true("packing"),
        obstacle=_obstacle(values, kind),
    )


def _evaluates(values: Values, kind: str) -> bool:
    """While it trains; not where it would generate."""
    share = values.get("split_dataset_ratio", 0)
    when = values.get("eval_strategy") or values.get("save_strategy") or "steps"
    rows = bool(values.get("val_dataset")) or (isinstance(share, float) and share > 0)
    generates = kind in _GENERATES or values.true("predict_with_generate")
    return rows and str(when) != "no" and not generates


def _many(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def _obstacle(values: Values, kind: str) -> str:
    """Why it cannot be rehearsed here; "" where it can."""
    for name in _SUBGROUPS:
        size = values.get(name)
        if isinstance(size, int) and size > 1:
            return f"--{name} {size}: subgroups of ranks are not rehearsed"
    if values.true("use_ray"):
        return "--use_ray: workers get their ranks from Ray"
    if values.get("tuner_backend") == "unsloth":
        return "--tuner_backend unsloth: its kernels need a GPU"
    if kind in ("ppo", "kto") or values.get("task_type") not in (None, "", "causal_lm"):
        return f"{kind or values.get('task_type')}: not rehearsed yet"
    return ""


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    import contextlib

    from vlmguard_transformers import rehearsal

    rehearsal.load(
        "swift.pipelines", "swift.trainers", "swift.trainers.seq2seq_trainer", "swift.loss_scale",
        "swift.rlhf_trainers", "swift.llm", "trl", "qwen_vl_utils", "vlmguard_swift.profile",
        "vlmguard_swift.batches",
    )  # fmt: skip
    for name in ("DPOTrainer", "GRPOTrainer"):  # lazily loaded
        with contextlib.suppress(Exception):
            getattr(importlib.import_module("swift.rlhf_trainers"), name)
    _main("sft")


def _main(entry: str) -> Any:
    try:
        module = importlib.import_module("swift.pipelines")
    except ImportError:  # 3.x
        module = importlib.import_module("swift.llm")
    names = {"sft": ("sft_main",), "pt": ("pretrain_main", "pt_main"), "rlhf": ("rlhf_main",)}
    return next(getattr(module, name) for name in names[entry] if hasattr(module, name))


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass."""
    from vlmguard_swift import registry
    from vlmguard_torch import towers
    from vlmguard_transformers import rehearsal

    rehearsal.enter(scene, any(word.startswith("--fsdp") for word in scene.argv))
    told = rehearsal.watch(scene, lambda model: registry.towers(model) or towers.by_name(model))
    with rehearsal.arguments(f"swift/cli/{scene.entry}.py", scene.argv):
        _main(scene.entry)()
    return rehearsal.finished(told)


def commands(
    request: Request, made: Mapping[str, Any], rows: Path, single: Path, steps: int
) -> Commands:
    """The command as it is run here: itself, and its reference."""
    argv, env = _located(request, made, rows, steps)
    shrunk = rehearse_flags.ratio(made)
    if request.generates:
        _groups(argv, request)
    given = argv.get("deepspeed")
    if given:
        config = _config(given, request.folder)
        place = Path(request.scratch)
        argv.set("deepspeed", rehearse_flags.written(config, place, shrunk, argv))
    elif shrunk > 10 and argv.values("ddp_bucket_cap_mb") is None and not argv.get("fsdp"):
        argv.set("ddp_bucket_cap_mb", 1)
    _numbers(argv)
    return Commands(tuple(argv.words), _reference(argv, request, single), env, tuple(argv.notes))


def own(request: Request, made: Mapping[str, Any], rows: Path, steps: int) -> Commands:
    """The command with its own optimizer, dtype, clipping and accumulation."""
    argv, env = _located(request, made, rows, steps)
    given = argv.get("deepspeed")
    if given:
        config = _config(given, request.folder)
        place = Path(request.scratch)
        argv.set(
            "deepspeed", rehearse_flags.written_own(config, place, rehearse_flags.ratio(made), argv)
        )
    if argv.get("torch_dtype") is None and (dtype := rehearse_flags.dtype(request.model)):
        argv.set("torch_dtype", dtype)
    return Commands(tuple(argv.words), (), env)


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
    env = _replaced(argv, request)
    argv.set("model", made["folder"])
    for name in ("reward_model", "teacher_model"):
        if argv.values(name) is not None:
            argv.set(name, made["folder"])
            argv.notes.append(f"--{name}: the same tiny model")
    argv.replace(["ref_model"], "the same tiny model")
    argv.set("dataset", rows)
    argv.drop("val_dataset")
    for name, value in _EVERY.items():
        argv.set(name, value)
    if request.evaluates:  # once, when all steps are over
        argv.set("val_dataset", request.evaluated[0])
        argv.set("eval_strategy", "steps")
        argv.set("eval_steps", steps)
        argv.set("per_device_eval_batch_size", 1)
    argv.set("max_steps", steps)
    argv.set("gradient_accumulation_steps", request.accumulation)
    argv.set("output_dir", place / "out")
    return argv, env


def _replaced(argv: Argv, request: Request) -> dict[str, str]:
    """What a CPU cannot do, taken out of the flags; returns variables to set."""
    for names, why in _DROPPED:
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
    if "image" in request.media:
        argv.notes.append(f"images of at most {PIXELS} pixels where the processor scales them")
    return {"MAX_PIXELS": str(PIXELS)}


def _config(given: str, folder: str) -> dict[str, Any]:
    """A DeepSpeed config by text, file or ms-swift's own name."""
    package = sources.package("swift") if not given.lstrip().startswith("{") else None
    for own in ("config", "llm/ds_config") if package else ():
        known = Path(str(package), own, f"{given}.json")
        if known.is_file():
            given = str(known)
    return rehearse_flags.read(given, folder)


def _numbers(argv: Argv) -> None:
    """So that weights say what the gradients were: SGD, float32, no clipping, no dropout."""
    full = argv.get("tuner_type", "train_type") == "full"
    argv.drop(*_ADAPTIVE)
    for name, value in _NUMBERS.items():
        argv.set(name, value)
    argv.set("learning_rate", 0.1 if full else 1)
    argv.notes.append("plain SGD in float32, without clipping and dropout")


def _reference(argv: Argv, request: Request, rows: Path) -> tuple[str, ...]:
    """No checkpointing; one rank without a wrapper on the same global batch, or, where batches
    are generated, the same wrapper."""
    other = argv.copy()
    other.drop("gradient_checkpointing_kwargs")
    other.set("gradient_checkpointing", "false")
    other.set("vit_gradient_checkpointing", "false")
    if not request.generates:
        other.drop(*_UNWRAPPED)
        other.set("gradient_accumulation_steps", request.ranks * request.accumulation)
        other.set("dataset", rows)
    return tuple(other.words)
