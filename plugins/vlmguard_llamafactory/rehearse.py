"""Rehearsing ``llamafactory-cli train``: its own `run_exp`, in a rank.

Top-level imports are light: `describe` runs in the command line's process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import known
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands, Described
from vlmguard.rehearse.request import Request
from vlmguard_llamafactory import dataset_formats
from vlmguard_transformers.data import cut
from vlmguard_transformers.rehearsal import cpu_flags, harmless
from vlmguard_transformers.rehearsal.shrunk import make as make
from vlmguard_transformers.rehearsal.shrunk import ready as ready
from vlmguard_transformers.rehearsal.shrunk import remote as remote

NAME = "LLaMA-Factory"
HARMLESS, REASONS = harmless.HARMLESS, harmless.REASONS
DROPS = True
ENDING = True
_ROWS = {"sft": "chat", "dpo": "pair", "rm": "pair", "kto": "label"}
_OBSTACLES = {
    "packing": "rows are joined, so that which rank gets which is not known",
    "neat_packing": "rows are joined, so that which rank gets which is not known",
    "streaming": "who gets which row is for accelerate's dispatcher to say",
    "tokenized_path": "rows that are tokenized already",
    "use_unsloth": "its kernels need a GPU",
    "use_kt": "KTransformers",
    "use_ray": "workers get their ranks from Ray",
    "use_mca": "Megatron",
    "use_hyper_parallel": "subgroups of ranks",
    "use_badam": "an optimizer that trains one block at a time",
}
_DROPPED = (
    (("adapter_name_or_path",), "the adapter begins anew"),
    (("ref_model", "ref_model_adapters", "ref_model_quantization_bit"), "the same tiny model"),
    (("quantization_bit", "quantization_method", "quantization_type", "double_quantization",
      "quantization_device_map"), "weights are not quantised"),
    (("enable_liger_kernel",), "Liger's kernels need a GPU"),
    (("fp8", "fp8_backend", "fp8_enable_fsdp_float8_all_gather"), "not in fp8"),
    (("infer_dtype", "plot_loss", "eval_dataset", "val_size", "max_samples",
      "buffer_size", "mix_strategy", "interleave_probs", "overwrite_cache",
      "preprocessing_num_workers", "compute_accuracy", "use_swanlab", "cache_dir",
      "model_revision", "ms_hub_token", "om_hub_token", "print_param_status", "do_eval",
      "eval_on_each_dataset", "early_stopping_steps", "generate_max_len"), ""),
)  # fmt: skip
_ADAPTIVE = ("pure_bf16", "use_galore", "use_apollo", "use_adam_mini", "use_muon",
             "loraplus_lr_ratio")  # fmt: skip
"""Optimizers and dtypes of the command's own."""
_SEQUENCES = ("context_parallel_size", "sequence_parallel_size", "tensor_parallel_size")
CUTOFF, OWN_PIXELS = 2048, 768 * 768
"""Tokens of a row and pixels of an image, where a command says neither [read]."""
FRAMES = 12544
"""Pixels of a video's frame, at most."""


def describe(values: Values, entry: str, files: Files) -> Described:
    """What the command says of its model, data and loop."""
    batch = values.get("per_device_train_batch_size", 8)
    folder = str(values.get("dataset_dir") or "data")
    stage = str(values.get("stage") or "sft")
    obstacle = _obstacle(values, stage)
    data: tuple[str, ...] = ()
    evaluated: tuple[str, ...] = ()
    if not obstacle:
        named = _entries(_names(values.get("dataset")), folder, files)
        if stage != "sft" and not dataset_formats.one(named.values()):
            obstacle = f"stage {stage} with data sets of more than one format: not rehearsed"
        data = tuple(_file(name, entry, folder, files) for name, entry in named.items())
        tests = _entries(_names(values.get("eval_dataset")), folder, files)
        evaluated = tuple(_file(name, entry, folder, files) for name, entry in tests.items())
    return Described(
        model=str(values.get("model_name_or_path") or ""),
        data=data,
        batch=batch if isinstance(batch, int) else 1,
        shuffled=not values.true("disable_shuffling"),
        blocks=True,
        # KTO's loss takes the mean over all ranks
        paired=stage == "kto" or cpu_flags.own_tokens(values),
        fewest=int(batch) if values.true("dataloader_drop_last") else 0,
        evaluates=cpu_flags.evaluates(values),
        generates_at_evaluation=cpu_flags.generates_at_evaluation(values),
        evaluated=evaluated,
        row=_ROWS.get(stage, ""),
        media_root=files.path(str(values.get("media_dir") or folder)),
        obstacle=obstacle,
    )


def _names(value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    return [name.strip() for text in texts for name in str(text or "").split(",") if name.strip()]


def _obstacle(values: Values, stage: str) -> str:
    if stage not in _ROWS:
        return f"stage {stage} is not rehearsed yet"
    for name, why in _OBSTACLES.items():
        if values.true(name):
            return f"{name}: {why}: not rehearsed"
    for name in _SEQUENCES:
        size = values.get(name)
        if isinstance(size, int) and size > 1:
            return f"{name} {size}: subgroups of ranks are not rehearsed"
    return ""


def _entries(names: Sequence[str], folder: str, files: Files) -> dict[str, dict[str, Any]]:
    """What dataset_info.json says of each; {} for one that it does not list here."""
    info = os.path.join(folder, "dataset_info.json")
    table = files.data(info) if known(folder) and files.there(info) else {}
    return {name: table.get(name) or {} for name in names}


def _file(name: str, entry: Mapping[str, Any], folder: str, files: Files) -> str:
    file = entry.get("file_name")
    return files.path(os.path.join(folder, file)) if file else name


def shaped(request: Request, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stand-in rows: every column in every row."""
    made = []
    for number, row in enumerate(rows):
        question, answer = row["messages"]
        new = {"messages": [question, answer], "images": row.get("images", [])}
        if request.row == "pair":
            other = {"role": "assistant", "content": "no idea"}
            new |= {"messages": [question], "chosen": answer, "rejected": other}
        if request.row == "label":
            new["good"] = number % 3 == 0
        made.append(new)
    return made


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    from vlmguard_transformers.rehearsal import in_rank

    in_rank.load("llamafactory.train.tuner", "llamafactory.data.collator",
                   "vlmguard_llamafactory.profile")  # fmt: skip


def commands(
    request: Request, made: Mapping[str, Any], rows: Path, single: Path, steps: int
) -> Commands:
    """The command as it is run here: itself, and its reference. accelerate gives a rank whole
    batches of the file, so that both read it in the order for one rank."""
    lora = (Argv(list(request.argv)).get("finetuning_type") or "lora") == "lora"
    argv, wrapper = _located(request, made, single, steps, 1 if lora else 0.1)
    other = cpu_flags.reference(argv, request)
    other.drop("use_reentrant_gc")
    other.set("disable_gradient_checkpointing", True)
    return Commands(
        tuple(argv.words), tuple(other.words), _env(request), tuple(argv.notes), wrapper
    )


def own(request: Request, made: Mapping[str, Any], rows: Path, steps: int) -> Commands:
    """The command with its own optimizer, dtype, clipping and accumulation."""
    argv, wrapper = _located(request, made, rows, steps, None)
    return Commands(tuple(argv.words), (), _env(request), (), wrapper)


def _env(request: Request) -> dict[str, str]:
    return {"DISABLE_VERSION_CHECK": request.env.get("DISABLE_VERSION_CHECK", "0")}


def _located(
    request: Request, made: Mapping[str, Any], rows: Path, steps: int, rate: float | None
) -> tuple[Argv, dict[str, str]]:
    """The command on the tiny model and these rows, for so many steps; what wraps the model, as a
    launcher's variables."""
    argv = Argv(list(request.argv), frozenset(request.known))
    before = argv.copy()
    for names, why in _DROPPED:
        argv.replace(names, why)
    if rate is not None:
        argv.drop(*_ADAPTIVE)
    wrapper = cpu_flags.settle(argv, request, made, steps, rate)
    _media(argv, request, rows)
    _data(argv, before, request, rows)
    given = argv.get("flash_attn")
    if given in ("fa2", "fa3"):
        argv.set("flash_attn", "sdpa")
        argv.notes.append(f"flash_attn {given}: sdpa")
    argv.set("disable_shuffling", True)
    return argv, wrapper


def _data(argv: Argv, before: Argv, request: Request, rows: Path) -> None:
    """A data set of our own name and folder, in the format of the user's."""
    folder = rows.with_suffix(".data")
    folder.mkdir()
    file = folder / "rows.jsonl"
    os.replace(rows, file)
    entry = _stand_in(request.row)
    if request.data:
        names = [name for words in before.values("dataset") or () for name in _names(words)]
        home = before.get("dataset_dir") or "data"
        every = list(_entries(names, home, Files(request.folder)).values())
        entry = dataset_formats.bare(every[0])
        if not dataset_formats.one(every):
            read = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            made, entry = dataset_formats.mixed(read, every)
            file.write_text("".join(json.dumps(row) + "\n" for row in made), "utf-8")
            argv.notes.append("rows of several formats, written alike")
    told = {"rehearsed": {**entry, "file_name": file.name}}
    if request.evaluates and (before.get("eval_dataset") or before.get("val_size")):
        told["evaluated"] = _evaluated(argv, before, request, folder, entry)
    (folder / "dataset_info.json").write_text(json.dumps(told), "utf-8")
    argv.set("dataset", "rehearsed")
    argv.set("dataset_dir", folder)
    argv.set("media_dir", request.media_root)


def _evaluated(
    argv: Argv, before: Argv, request: Request, folder: Path, entry: Mapping[str, Any]
) -> dict[str, Any]:
    """The data set to evaluate on, in its own format, else in that of the training rows."""
    os.replace(request.evaluated[0], folder / "evaluated.jsonl")
    names = [name for words in before.values("eval_dataset") or () for name in _names(words)]
    home = before.get("dataset_dir") or "data"
    own = [e for e in _entries(names, home, Files(request.folder)).values() if e.get("file_name")]
    argv.set("eval_dataset", "evaluated")
    return {**(dataset_formats.bare(own[0]) if own else entry), "file_name": "evaluated.jsonl"}


def _stand_in(row: str) -> dict[str, Any]:
    entry = {**dataset_formats.OWN, "columns": dict(dataset_formats.OWN["columns"])}
    if row == "pair":
        entry["ranking"] = True
        entry["columns"] |= {"chosen": "chosen", "rejected": "rejected"}
    if row == "label":
        entry["columns"]["kto_tag"] = "good"
    return entry


def _media(argv: Argv, request: Request, rows: Path) -> None:
    """Few pixels and frames."""
    few = cpu_flags.PIXELS
    if request.data:
        longest = argv.get("cutoff_len") or str(CUTOFF)
        own = argv.get("image_max_pixels") or str(OWN_PIXELS)
        if longest.isdigit() and own.isdigit():
            root = request.media_root or request.folder
            few = max(few, cut.pixels(rows, root, int(longest), int(own), few))
    limits = {"image_max_pixels": few, "video_max_pixels": FRAMES, "video_maxlen": 4}
    for name, most in limits.items():
        given = argv.get(name)
        if not (given and given.isdigit() and int(given) <= most):
            argv.set(name, most)
    argv.notes.append(f"images of at most {few} pixels, videos of 4 frames")


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass."""
    import importlib

    from vlmguard_torch.layout import towers
    from vlmguard_transformers.rehearsal import in_rank

    tuner = importlib.import_module("llamafactory.train.tuner")
    return in_rank.run(scene, "llamafactory-cli", towers.by_name, tuner.run_exp)
