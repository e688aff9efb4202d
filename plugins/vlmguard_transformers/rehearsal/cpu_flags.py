"""Flags of any Hugging Face Trainer, changed for a rehearsal on a CPU.

What a plug-in's ``rehearse.py`` sets besides is its own. Imports the standard library only.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Unreadable
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.request import Request

EDGE = 224
PIXELS = EDGE * EDGE
HERE = "{here}"
"""Stands for the folder of a pass in a command's words; a rank fills it in."""
_DROPPED = (
    (("use_cpu", "no_cuda", "use_mps_device", "ddp_backend", "ddp_timeout", "tpu_num_cores"), ""),
    (("resume_from_checkpoint", "ignore_data_skip"), "begins at step 0"),
    (("use_liger_kernel", "liger_kernel_config"), "Liger's kernels need a GPU"),
    (("torch_compile", "torch_compile_backend", "torch_compile_mode"), "not compiled"),
    (("tf32", "half_precision_backend", "fp16_full_eval", "bf16_full_eval", "eval_on_start",
      "torch_empty_cache_steps", "load_best_model_at_end", "metric_for_best_model", "eval_steps",
      "greater_is_better", "eval_delay", "do_eval", "do_predict", "predict_with_generate",
      "save_steps", "save_total_limit", "save_only_model", "num_train_epochs", "push_to_hub",
      "hub_token", "hub_model_id", "hub_strategy", "include_num_input_tokens_seen", "run_name",
      "logging_strategy", "evaluation_strategy", "logging_dir", "logging_first_step",
      "auto_find_batch_size", "full_determinism", "dataloader_persistent_workers",
      "dataloader_prefetch_factor", "dataloader_drop_last", "local_rank",
      "overwrite_output_dir"), ""),
    (("neftune_noise_alpha",), "left out"),
    (("group_by_length", "train_sampling_strategy"), "rows come in the file's order"),
    (("accelerator_config", "split_batches", "dispatch_batches"),
     "batches are dealt out as without it"),
)  # fmt: skip
_EVERY: Mapping[str, Any] = {
    "logging_steps": 1, "save_strategy": "no", "eval_strategy": "no", "report_to": "none",
    "dataloader_num_workers": 0, "dataloader_pin_memory": False, "disable_tqdm": True,
}  # fmt: skip
_NUMBERS: Mapping[str, Any] = {
    "fp16": False, "bf16": False, "optim": "sgd", "max_grad_norm": 0, "weight_decay": 0,
    "warmup_steps": 0, "lr_scheduler_type": "constant", "lora_dropout": 0,
}  # fmt: skip
_ADAPTIVE = ("warmup_ratio", "optim_args", "optim_target_modules", "lr_scheduler_kwargs")
"""Of the command's own optimizer and schedule, which may refuse to go without them."""
_UNWRAPPED = ("deepspeed", "fsdp", "fsdp_config", "ddp_static_graph", "ddp_bucket_cap_mb",
              "ddp_broadcast_buffers", "ddp_find_unused_parameters")  # fmt: skip
_CHECKPOINTS = ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs",
                "activation_checkpointing")  # fmt: skip
BUCKETS = {"reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8,
           "stage3_prefetch_bucket_size": 5e7, "stage3_max_live_parameters": 1e9,
           "stage3_max_reuse_distance": 1e9, "sub_group_size": 1e9,
           "stage3_param_persistence_threshold": 1e5}  # fmt: skip
"""DeepSpeed's own sizes, for what a config does not say [read]."""
_SUBGROUPS = ("zero_hpz_partition_size", "mics_shard_size")
_QUANTISED = ("zero_quantized_weights", "zero_quantized_gradients",
              "zero_quantized_nontrainable_weights")  # fmt: skip
_STAGE3 = ("stage3", "sub_group")


def own_tokens(values: Values) -> bool:
    """Whether each rank divides its loss by its own tokens: no single rank's equals theirs."""
    return not values.get("average_tokens_across_devices", True)


def evaluates(values: Values) -> bool:
    """While it trains, and not by generating."""
    return _evaluates(values) and not values.true("predict_with_generate")


def generates_at_evaluation(values: Values) -> bool:
    """While it trains, by generating."""
    return _evaluates(values) and values.true("predict_with_generate")


def _evaluates(values: Values) -> bool:
    when = values.get("eval_strategy") or values.get("evaluation_strategy") or "no"
    return str(when) != "no"


def settle(
    argv: Argv, request: Request, made: Mapping[str, Any], steps: int, rate: float | None,
    pixels: int = PIXELS,
) -> dict[str, str]:  # fmt: skip
    """Change ``argv`` in place; returns variables by which a launcher says how the model is
    wrapped: not for a reference that has no wrapper.

    rate: the learning rate of plain SGD; None leaves the command its own optimizer and dtype.
    pixels: of an image, at most.
    """
    in_order = argv.get("train_sampling_strategy") == "sequential"
    argv.drop(*(["train_sampling_strategy"] if in_order else []))
    for names, why in _DROPPED:
        argv.replace(names, why)
    if in_order:  # the rehearsal needs the same
        argv.set("train_sampling_strategy", "sequential")
    argv.set("model_name_or_path", made["folder"])
    for name, value in _EVERY.items():
        argv.set(name, value)
    if rate is not None:
        argv.drop(*_ADAPTIVE)
        for name, value in _NUMBERS.items():
            argv.set(name, value)
        argv.set("learning_rate", rate)
        argv.notes.append("plain SGD in float32, without clipping and dropout")
    if request.evaluates:  # once, after all steps
        argv.set("eval_strategy", "steps")
        argv.set("eval_steps", steps)
        argv.set("per_device_eval_batch_size", 1)
    argv.set("max_steps", steps)
    argv.set("gradient_accumulation_steps", request.accumulation)
    argv.set("output_dir", f"{HERE}/out")
    smaller(made["folder"], argv, pixels, request.model)
    return strategy(argv, request, ratio(made), written if rate is not None else written_own)


def strategy(
    argv: Argv, request: Request, shrunk: float, written: Callable[..., Path]
) -> dict[str, str]:
    """DeepSpeed's config or DDP's buckets, as small as the model."""
    place = Path(request.scratch)
    given = argv.get("deepspeed")
    if given:
        argv.set("deepspeed", written(read(given, request.folder), place, shrunk, argv))
    elif str(request.accelerate.get("distributed_type", "")).upper() == "DEEPSPEED":
        inner = request.accelerate.get("deepspeed_config") or {}
        stage = int(inner.get("zero_stage", 2))
        config = inner.get("config") or {"zero_optimization": {"stage": stage}}
        file = written(config, place, shrunk, argv)
        partitioned = str(inner.get("zero3_init_flag", stage == 3)).lower()
        return {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(file),
                "ACCELERATE_DEEPSPEED_ZERO3_INIT": partitioned}  # fmt: skip
    elif str(request.accelerate.get("distributed_type", "")).upper() == "FSDP":
        return _fsdp(request.accelerate.get("fsdp_config") or {}, argv)
    elif shrunk > 10 and argv.values("ddp_bucket_cap_mb") is None and not argv.get("fsdp"):
        argv.set("ddp_bucket_cap_mb", 1)
    return {}


def _fsdp(config: Mapping[str, Any], argv: Argv) -> dict[str, str]:
    """accelerate's own variables for its config's FSDP."""
    names = {"fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP"}
    found = {names.get(name, name.upper()): str(value) for name, value in config.items()
             if name.startswith("fsdp_")}  # fmt: skip
    if found.pop("FSDP_OFFLOAD_PARAMS", "false").lower() == "true":
        argv.notes.append("fsdp_offload_params: nothing is moved")
    return {**found, "ACCELERATE_USE_FSDP": "true"}


def reference(argv: Argv, request: Request) -> Argv:
    """No checkpointing; one rank without a wrapper on the same global batch, or, where a rank's
    number matters, as many under plain DDP that looks for what is unused."""
    other = argv.copy()
    other.drop("gradient_checkpointing", *_CHECKPOINTS, *_UNWRAPPED)
    other.set("gradient_checkpointing", False)
    if request.generates or request.paired:
        other.set("ddp_find_unused_parameters", True)
    else:
        other.set("gradient_accumulation_steps", request.ranks * request.accumulation)
    return other


def another(tiny: Path) -> Path:
    """The same tiny checkpoint with other weights beside it: of a teacher who knows as much as
    its pupil nothing is learnt, and nothing would move."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    out = tiny.with_name(f"{tiny.name}-teacher") / tiny.name
    if out.exists():
        return out
    shutil.copytree(tiny, out)
    draw = np.random.default_rng(1)
    for file in out.glob("*.safetensors"):
        weights = load_file(file)
        for name, weight in weights.items():
            noise = draw.standard_normal(weight.shape, dtype=np.float32) * weight.std()
            weights[name] = (weight + noise).astype(weight.dtype)
        save_file(weights, file, metadata={"format": "pt"})
    return out


def sdpa(argv: Argv, name: str) -> None:
    """No flash attention runs on a CPU."""
    given = argv.get(name)
    if given and given not in ("eager", "sdpa", "disabled", "auto"):
        argv.notes.append(f"--{name} {given}: sdpa")
        argv.set(name, "sdpa")


def limit(folder: str) -> int:
    """Pixels of an image to which its processor scales it, at most; 0 where it says none."""
    file = Path(folder, "preprocessor_config.json")
    told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    size = told.get("size") if isinstance(told.get("size"), dict) else {}
    found = [value for value in (told.get("max_pixels"), size.get("longest_edge"))
             if isinstance(value, int) and value > 2 * PIXELS]  # fmt: skip
    return min(found, default=0)


def smaller(folder: str, argv: Argv, pixels: int = PIXELS, source: str = "") -> None:
    """The tiny checkpoint's processor scales images to few pixels, where it has a limit at all.

    transformers 5 writes one file for a processor and all its parts, earlier ones a file each.
    source: the folder with the limits that it had.
    """
    note = f"images of at most {pixels} pixels"
    changed = [_smaller(Path(folder, name), pixels, Path(source or folder, name))
               for name in _PROCESSORS]  # fmt: skip
    if any(changed) and not any(said.startswith(note) for said in argv.notes):
        argv.notes.append(note)


_PROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json",
               "processor_config.json")  # fmt: skip


def _smaller(file: Path, pixels: int, source: Path) -> bool:
    """Whether there was something to change."""
    if not file.is_file():
        return False
    before = json.loads(file.read_text("utf-8"))
    told = json.loads(source.read_text("utf-8")) if source.is_file() else before
    told = json.loads(json.dumps(told))
    whole = {} if file.name.startswith("video") else told
    for part in (whole, told.get("image_processor")):
        _fewer_pixels(part if isinstance(part, dict) else {}, pixels)
    for part in (told, told.get("image_processor"), told.get("video_processor")):
        edge = part.get("scale_resolution") if isinstance(part, dict) else None
        if isinstance(edge, int) and edge > EDGE:  # MiniCPM resizes all its slices to this
            part["scale_resolution"] = EDGE
    if told == before:
        return False
    file.write_text(json.dumps(told))
    return True


def _fewer_pixels(told: dict[str, Any], pixels: int) -> None:
    size = told.get("size") if isinstance(told.get("size"), dict) else {}
    for table, most, least in ((told, "max_pixels", "min_pixels"),
                               (size, "longest_edge", "shortest_edge")):  # fmt: skip
        if isinstance(table.get(most), int) and table[most] > 2 * PIXELS:  # pixels, not an edge
            table[most] = min(table[most], pixels)
            if isinstance(table.get(least), int):
                table[least] = min(table[least], pixels)


def ratio(made: Mapping[str, Any]) -> float:
    """How many times more weights the model has at its full size."""
    return float(max(1.0, made.get("full", 0) / max(made.get("weights", 1), 1)))


def read(given: str, folder: str) -> dict[str, Any]:
    """A DeepSpeed config by text or file."""
    if given.lstrip().startswith("{"):
        return dict(json.loads(given))
    return dict(json.loads(Path(folder, given).expanduser().read_text("utf-8")))


def written(config: dict[str, Any], place: Path, shrunk: float, argv: Argv) -> Path:
    """The same configuration for a tiny model in float32, as a file."""
    file = place / "deepspeed.json"
    file.write_text(json.dumps(plain(small(config, shrunk, argv))))
    return file


def written_own(config: dict[str, Any], place: Path, shrunk: float, argv: Argv) -> Path:
    """The configuration for a tiny model with its own optimizer and dtype, as a file."""
    config = small(config, shrunk, argv)
    kind = str((config.get("optimizer") or {}).get("type", "")).lower()
    if kind in ("adam", "adamw"):  # else DeepSpeed would build its CUDA kernel
        params = {**(config["optimizer"].get("params") or {}), "torch_adam": True}
        config["optimizer"] = {**config["optimizer"], "params": params}
    file = place / "deepspeed-own.json"
    file.write_text(json.dumps(config))
    return file


def dtype(folder: str) -> str:
    """The dtype of the real weights, by their config; "" where it does not say."""
    config = json.loads(Path(folder, "config.json").read_text("utf-8"))
    for part in (config, config.get("text_config") or {}, config.get("thinker_config") or {}):
        found = part.get("dtype") or part.get("torch_dtype")
        if found in ("bfloat16", "float16", "float32"):
            return str(found)
    return ""


def small(config: Mapping[str, Any], shrunk: float, argv: Argv) -> dict[str, Any]:
    """Nothing is moved to other memory, and buckets shrink with the model."""
    zero = dict(config.get("zero_optimization") or {})
    for name in _SUBGROUPS:
        if (size := zero.get(name, 0)) and int(size) > 1:
            raise Unreadable(f"{name} {size}: subgroups of ranks are not rehearsed")
    if [name for name in _QUANTISED if zero.pop(name, False)]:
        argv.notes.append("DeepSpeed's quantised communication: not quantised")
    for name in ("offload_optimizer", "offload_param"):
        told = zero.pop(name, None)
        if isinstance(told, dict) and told.get("device") in ("cpu", "nvme"):
            argv.notes.append(f"{name}: nothing is moved")
    for name, usual in BUCKETS.items():
        size = zero.get(name, usual)
        known = name in zero or zero.get("stage") == 3 or not name.startswith(_STAGE3)
        if shrunk > 10 and known and isinstance(size, (int, float)):
            zero[name] = max(int(size / shrunk) // 2 * 2, 1000)  # ZeRO-2 needs even sizes
    return {**config, "zero_optimization": zero}


BATCHES = ("gradient_accumulation_steps", "train_batch_size", "train_micro_batch_size_per_gpu")


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The Trainer's own optimizer in float32, batches by its flags, no clipping."""
    dropped = ("optimizer", "scheduler", "torch_autocast", "data_types", "amp", "compile",
               "communication_data_type", "flops_profiler", "tensorboard", "wandb", "comet",
               "csv_monitor", "autotuning", "elasticity", "progressive_layer_drop",
               "data_efficiency", "curriculum_learning", "compression_training")  # fmt: skip
    kept = {name: value for name, value in config.items() if name not in dropped}
    return {
        **kept,
        **dict.fromkeys(BATCHES, "auto"),
        "fp16": {"enabled": False},
        "bf16": {"enabled": False},
        "gradient_clipping": 0,
        "zero_allow_untested_optimizer": True,
    }
