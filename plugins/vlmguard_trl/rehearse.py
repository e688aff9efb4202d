"""Rehearsing ``trl sft | dpo | kto | reward | grpo``: its own scripts, in a rank.

Top-level imports are light: `describe` runs in the command line's process, without TRL.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.check import hf
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands, Described
from vlmguard.rehearse.request import Request
from vlmguard_transformers.data import cut
from vlmguard_transformers.rehearsal import cpu_flags, harmless
from vlmguard_transformers.rehearsal.shrunk import make as make
from vlmguard_transformers.rehearsal.shrunk import ready as ready
from vlmguard_transformers.rehearsal.shrunk import remote as remote

NAME = "TRL"
HARMLESS, REASONS = harmless.HARMLESS, harmless.REASONS
DROPS = True
ENDING = True
_ROWS = {"sft": "chat", "dpo": "pair", "reward": "pair", "kto": "label", "grpo": "prompt"}
_OBSTACLES = {
    "packing": "rows are joined, so that which rank gets which is not known",
    "padding_free": "needs flash attention",
    "dataset_streaming": "rows that are streamed have no order to set",
    "datasets": "a mixture of data sets",
    "reward_model_name_or_path": "reward models",
    "teacher_model_name_or_path": "teachers",
}
_DROPPED = (
    (("load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type", "bnb_4bit_quant_storage",
      "use_bnb_nested_quant"), "weights are not quantised"),
    (("use_vllm",), "transformers generates"),
    (("activation_offloading",), "nothing is moved"),
    (("vllm_mode", "vllm_server_host", "vllm_server_port", "vllm_gpu_memory_utilization",
      "vllm_tensor_parallel_size", "vllm_server_base_url", "vllm_server_timeout",
      "vllm_max_model_length", "vllm_enable_sleep_mode", "vllm_model_impl", "vllm_group_port",
      "vllm_structured_outputs_regex", "vllm_guided_decoding_regex",
      "vllm_importance_sampling_correction", "vllm_importance_sampling_cap"), ""),
    (("dataset_config", "dataset_test_split", "dataset_num_proc", "model_revision",
      "log_completions", "num_completions_to_print", "generation_batch_size",
      "steps_per_generation", "num_iterations"), ""),
)  # fmt: skip
SILENT = {"TRL_EXPERIMENTAL_SILENCE": "1"}
_GROUPS = ("per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size",
           "steps_per_generation", "num_iterations", "num_generations")  # fmt: skip
LENGTH = 8
"""Tokens of a completion."""
REWARDS = "rewards of other ranks' completions: one rank's own stand for them"
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")
_BESIDE = ("dataset_infos.json", "dataset_info.json", "state.json")
_SPLIT = re.compile(r"(?:^|[^a-z])(train|test|valid|validation|eval|dev)(?=[^a-z]|$)")


def describe(values: Values, entry: str, files: Files) -> Described:
    """What the command says of its model, data and loop."""
    verb = _verb(entry)
    batch = values.get("per_device_train_batch_size", 8)
    rewards = values.get("reward_funcs") or []
    own = [name for name in rewards if isinstance(name, str) and "." in name]
    names = hf.datasets(values, "dataset_name")
    split = str(values.get("dataset_train_split") or "train")
    test = str(values.get("dataset_test_split") or "test")
    return Described(
        model=str(values.get("model_name_or_path") or ""),
        data=tuple(file for name in names for file in _files(name, split, files)),
        # GRPO: one rank holds a group of completions, so ranks can get prompts that differ
        batch=1 if verb == "grpo" or not isinstance(batch, int) else batch,
        accumulation=1 if verb == "grpo" else 0,
        shuffled=_shuffled(values, verb),
        blocks=True,
        # KTO's loss takes the mean over all ranks
        paired=verb in ("grpo", "kto") or cpu_flags.own_tokens(values),
        row=_ROWS.get(verb, ""),
        fewest=int(batch) if values.true("dataloader_drop_last") else 0,
        evaluates=verb != "grpo" and cpu_flags.evaluates(values),
        evaluated=tuple(file for name in names for file in _files(name, test, files)),
        code=(f"--reward_funcs {' '.join(own)}",) if own else (),
        obstacle=_obstacle(values, entry, verb),
    )


def _shuffled(values: Values, verb: str) -> bool:
    if verb == "grpo":
        return bool(values.get("shuffle_dataset", True))
    return values.get("train_sampling_strategy") != "sequential"


def _verb(entry: str) -> str:
    """ "sft" of "sft" and of "trl.scripts.sft"; "" for a script of the user's own."""
    found = re.fullmatch(r"(?:trl\.scripts\.)?(\w+)", entry)
    return found[1] if found else ""


def _obstacle(values: Values, entry: str, verb: str) -> str:
    if not verb:
        name = os.path.basename(entry.removeprefix("file:"))
        return f"{name}: a script of your own around TRL; only TRL's own commands are rehearsed"
    if verb not in _ROWS:
        return f"trl {verb} is not rehearsed yet"
    for name, why in _OBSTACLES.items():
        if values.true(name):
            return f"--{name}: {why}: not rehearsed"
    return ""


def _files(name: str, split: str, files: Files) -> list[str]:
    """A folder's files of one split, by their names, as `datasets` finds them."""
    folder = files.path(name)
    if not os.path.isdir(folder):
        return [name]
    found = [path for path in sorted(Path(folder).rglob("*")) if path.suffix in _ENDINGS]
    told = {str(path): _SPLIT.search(os.path.relpath(path, folder).lower()) for path in found
            if path.name not in _BESIDE}  # fmt: skip
    mine = [file for file, part in told.items() if part is None or split.startswith(part[1])]
    return mine or [name]


def shaped(request: Request, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stand-in rows as TRL's trainers take them: images apart, no tags in the text."""
    return [_shaped(request, row, number) for number, row in enumerate(rows)]


def _shaped(request: Request, row: Mapping[str, Any], number: int) -> dict[str, Any]:
    question, *answer = [
        {**said, "content": said["content"].replace("<image>", "")} for said in row["messages"]
    ]
    answer = answer or [{"role": "assistant", "content": f"it is {number}"}]
    other = [{"role": "assistant", "content": "no idea"}]
    made: dict[str, Any] = {"images": row.get("images", [])} if "image" in request.media else {}
    if request.row == "chat":
        return {**made, "messages": [question, *answer]}
    if request.row == "pair":
        return {**made, "prompt": [question], "chosen": answer, "rejected": other}
    if request.row == "label":
        return {**made, "prompt": [question], "completion": answer, "label": number % 3 == 0}
    return {**made, "prompt": [question], "solution": str(number)}


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    from vlmguard_transformers.rehearsal import in_rank

    verbs = [f"trl.trainer.{verb}_trainer" for verb in _ROWS]
    scripts = [f"trl.scripts.{verb}" for verb in _ROWS]
    in_rank.load("trl", "trl.rewards", *verbs, *scripts, "vlmguard_trl.profile")


def commands(
    request: Request, made: Mapping[str, Any], rows: Path, single: Path, steps: int
) -> Commands:
    """The command as it is run here: itself, and its reference. accelerate gives a rank whole
    batches of the file, so that both read it in the order for one rank."""
    argv = Argv(list(request.argv), frozenset(request.known))
    rate = 1 if argv.true("use_peft") else 0.1
    wrapper = _located(argv, request, made, steps, rate, single)
    argv.set("dtype", "float32")
    argv.set("torch_dtype", "float32")
    argv.set("dataset_name", _table(request, single, "table"))
    if request.row == "prompt":
        _generating(argv)
    other = cpu_flags.reference(argv, request)
    return Commands(tuple(argv.words), tuple(other.words), SILENT, tuple(argv.notes), wrapper)


def own(request: Request, made: Mapping[str, Any], rows: Path, steps: int) -> Commands:
    """The command with its own optimizer, dtype, clipping and accumulation, and groups of
    completions where it generates."""
    argv = Argv(list(request.argv), frozenset(request.known))
    before = argv.copy()
    wrapper = _located(argv, request, made, steps, None, rows)
    unseen: tuple[str, ...] = ()
    if request.row == "prompt":
        _own_groups(argv, before)
        _prompts(argv, request, rows)
        unseen = (REWARDS,)
    argv.set("dataset_name", _table(request, rows, "table-own"))
    return Commands(tuple(argv.words), (), SILENT, (), wrapper, unseen=unseen)


def _located(
    argv: Argv, request: Request, made: Mapping[str, Any], steps: int, rate: float | None,
    rows: Path,
) -> dict[str, str]:  # fmt: skip
    """Change it for the tiny model, these rows and so many steps; what wraps the model, as a
    launcher's variables."""
    for names, why in _DROPPED:
        argv.replace(names, why)
    if request.evaluates:
        argv.set("dataset_test_split", "test")
    wrapper = cpu_flags.settle(argv, request, made, steps, rate,
                                    _pixels(argv, request, made["folder"], rows))  # fmt: skip
    cpu_flags.sdpa(argv, "attn_implementation")
    argv.set("dataset_train_split", "train")
    argv.set("per_device_train_batch_size", request.batch)
    return wrapper


def _pixels(argv: Argv, request: Request, tiny: str, rows: Path) -> int:
    """Of an image. A release that has ``--max_length`` cuts at 1024 tokens unless told otherwise;
    what generates does not cut."""
    given = argv.get("max_length") or ("1024" if "max_length" in argv.known else "")
    longest = int(given) if given.isdigit() and request.row != "prompt" else 0
    few = cpu_flags.PIXELS
    most = cpu_flags.limit(request.model)
    if not most or not request.data:
        return few
    root = request.media_root or request.folder
    return cut.pixels(rows, root, longest, most, few, cut.each(Path(tiny)))


def _own_groups(argv: Argv, before: Argv) -> None:
    """What decides which completions are of one prompt, and which of one rank, as it was given."""
    argv.set("max_completion_length", LENGTH)
    argv.set("shuffle_dataset", False)
    for name in _GROUPS:
        given = before.values(name)
        argv.drop(name)
        if given is not None:
            argv.set(name, *given)


def _prompts(argv: Argv, request: Request, rows: Path) -> None:
    """As many as one generation takes, all alike, and then as many of the next kind.

    rows: the micro-batches one after the other, each of one row for every rank.
    """
    from vlmguard.rehearse.alone import MOST_ROWS

    one = _number(argv, "per_device_train_batch_size", 8) * request.world
    times = _number(argv, "steps_per_generation", request.accumulation)
    together = _number(argv, "generation_batch_size", one * times)
    prompts = max(1, together // _number(argv, "num_generations", 8))
    kinds = rows.read_text("utf-8").splitlines(keepends=True)[:: request.world]
    kinds = kinds[: max(1, MOST_ROWS // prompts)]
    rows.write_text("".join(line for line in kinds for _ in range(prompts)), "utf-8")


def _number(argv: Argv, name: str, usual: int) -> int:
    given = argv.get(name) or ""
    return int(given) if given.isdigit() and int(given) else usual


def _generating(argv: Argv) -> None:
    """One prompt a rank and step, two completions."""
    argv.set("max_completion_length", LENGTH)
    argv.set("shuffle_dataset", False)
    argv.set("num_generations", 2)
    argv.set("per_device_train_batch_size", 2)
    argv.notes.append(f"groups of 2 completions of {LENGTH} tokens, one a rank")


def _table(request: Request, rows: Path, name: str) -> Path:
    """A folder that `datasets` loads: parquet with images where the user's is, else JSON lines."""
    from vlmguard.ranks import run

    folder = rows.parent / name
    folder.mkdir()
    rated = request.evaluates and not _lacks_split(request)
    splits = {"train": rows, **({"test": Path(request.evaluated[0])} if rated else {})}
    if request.data and not any(name.endswith(".parquet") for name in request.data):
        for split, file in splits.items():
            os.replace(file, folder / f"{split}.jsonl")
        return folder

    def write(_: int) -> None:
        for split, file in splits.items():
            _parquet(file, folder / f"{split}.parquet")

    done = run(write, 1, "none", request.limit)
    if done.verdict != "ok":
        raise OSError(0, done.cause.message if done.cause else "not written", str(folder))
    return folder


def _lacks_split(request: Request) -> bool:
    """Whether its data on this disk have nothing to evaluate on: the framework's own error is what
    comes of it."""
    argv = Argv(list(request.argv))
    name, split = argv.get("dataset_name") or "", argv.get("dataset_test_split") or "test"
    folder = Path(request.folder, name)
    if not name or not folder.is_dir():
        return False
    inside = [os.path.relpath(path, folder).lower() for path in folder.rglob("*")
              if path.suffix in _ENDINGS and path.name not in _BESIDE]  # fmt: skip
    told = [found[1] for name in inside if (found := _SPLIT.search(name))]
    return not any(split.startswith(part) for part in told)


def _parquet(rows: Path, out: Path) -> None:
    import datasets

    found = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    names = dict.fromkeys(name for row in found for name in row)
    table = datasets.Dataset.from_list([{name: row.get(name) for name in names} for row in found])
    features = table.features.copy()
    if "images" in names:
        features["images"] = getattr(datasets, "List", datasets.Sequence)(datasets.Image())
    if "image" in names:
        features["image"] = datasets.Image()
    table.cast(features).to_parquet(str(out))


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass."""
    import runpy

    from vlmguard_torch.layout import towers
    from vlmguard_transformers.rehearsal import in_rank

    verb = _verb(scene.entry)
    return in_rank.run(
        scene, f"trl/scripts/{verb}.py", towers.by_name,
        lambda: runpy.run_module(f"trl.scripts.{verb}", run_name="__main__"),
    )  # fmt: skip
