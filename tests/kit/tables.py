"""The data sets of data.py for TRL and LLaMA-Factory, made by an environment that has `datasets`:

    python tests/kit/tables.py OUT

TRL reads a folder with a parquet file, whose images are of the type Image; LLaMA-Factory reads
JSON lines that dataset_info.json lists.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parent
sys.path.insert(0, str(KIT))

Row = dict[str, Any]
SETS = ("image", "text", "mixed", "phases", "phases_3", "several")
ZERO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "gradient_clipping": 0.0,
    "bf16": {"enabled": False},
}
BUCKETS = {
    "overlap_comm": False,
    "contiguous_gradients": True,
    "reduce_bucket_size": 1000,
    "allgather_bucket_size": 20000,
    "stage3_prefetch_bucket_size": 1000,
    "stage3_param_persistence_threshold": 0,
}
"""Scaled down to the tiny model, as a real model fills the default ones many times: what goes
wrong silently needs more than one bucket."""
FSDP2 = {
    "fsdp_version": 2,
    "reshard_after_forward": True,
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "cpu_ram_efficient_loading": False,
    "state_dict_type": "SHARDED_STATE_DICT",
}


def build(out: Path) -> None:
    """Write all sets and DeepSpeed's configs into ``out``."""
    import data

    data.build(out / "rows")
    read = {name: _read(out / "rows" / f"{name}.jsonl") for name in SETS}
    for name, rows in read.items():
        _parquet(out / "trl" / f"sft_{name}", [_trl(row) for row in rows])
        _parquet(out / "trl" / f"dpo_{name}", [_preference(row) for row in rows])
        _parquet(out / "trl" / f"grpo_{name}", [_question(row) for row in rows])
    for name, rows in _in_twos(read).items():
        unpaired = [_unpaired(row, number) for number, row in enumerate(rows)]
        _parquet(out / "trl" / f"kto_{name}", unpaired)
    read["iv"] = [_with_video(row) for row in read["image"]]
    _llamafactory(out / "llamafactory", read)
    for stage in (1, 2, 3):
        config = {**ZERO, "zero_optimization": {"stage": stage, **BUCKETS}}
        plain = {key: value for key, value in config.items() if value != "auto"}
        (out / f"zero{stage}.json").write_text(json.dumps(config))
        (out / f"loop_zero{stage}.json").write_text(json.dumps(plain))
    unclipped = {key: value for key, value in ZERO.items() if key != "gradient_clipping"}
    config = {**unclipped, "zero_optimization": {"stage": 2, **BUCKETS}}
    (out / "unclipped.json").write_text(json.dumps(config))
    (out / "fsdp2.json").write_text(json.dumps(FSDP2))


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _trl(row: Row) -> Row:
    """TRL puts a row's images in front of its first message itself."""
    told = [
        {"role": each["role"], "content": each["content"].replace("<image>", "")}
        for each in row["messages"]
    ]
    return {"images": row.get("images", []), "messages": told}


def _preference(row: Row) -> Row:
    told = _trl(row)
    prompt, *chosen = told.pop("messages")
    rejected = [{"role": "assistant", "content": "bad"}]
    return {**told, "prompt": [prompt], "chosen": chosen, "rejected": rejected}


def _in_twos(read: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The same for micro-batches of two rows, which KTO wants: a rank's two are of one kind."""
    image, text = read["image"], read["text"]
    count = range(len(image))
    return {
        "mixed": [(text if row // 2 % 2 else image)[row] for row in count],
        "phases": [(text if row // 4 % 2 else image)[row] for row in count],
    }


def _unpaired(row: Row, number: int) -> Row:
    """A prompt with one completion, good or bad."""
    told = _trl(row)
    prompt, *completion = told.pop("messages")
    return {**told, "prompt": [prompt], "completion": completion, "label": number % 2 == 0}


def _question(row: Row) -> Row:
    told = _trl(row)
    return {**told, "prompt": told.pop("messages")[:1], "solution": "a"}


def _with_video(row: Row) -> Row:
    """An image and, as LLaMA-Factory takes it, a video of two frames."""
    question, answer = row["messages"]
    asked = {**question, "content": "<image><video>what?"}
    return {"messages": [asked, answer], "images": row["images"], "videos": [row["images"] * 2]}


def _parquet(folder: Path, rows: list[Row]) -> None:
    import datasets

    table = datasets.Dataset.from_list(rows)
    features = table.features.copy()
    features["images"] = getattr(datasets, "List", datasets.Sequence)(datasets.Image())
    folder.mkdir(parents=True)
    datasets.Dataset.from_list(rows, features=features).to_parquet(
        str(folder / "train-00000-of-00001.parquet")
    )


def _llamafactory(out: Path, read: dict[str, list[Row]]) -> None:
    out.mkdir(parents=True)
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user"}
    info: dict[str, Any] = {}
    for name, rows in read.items():
        media = {"images": "images"} | ({"videos": "videos"} if name == "iv" else {})
        entry = {"formatting": "sharegpt", "tags": {**tags, "assistant_tag": "assistant"}}
        full = [{"images": [], **row} for row in rows]
        info[name] = _table(out, name, full, entry, {"messages": "messages", **media})
        ranked = [_ranked(row) for row in full]
        columns = {"messages": "messages", "chosen": "chosen", "rejected": "rejected", **media}
        info[f"dpo_{name}"] = _table(out, f"dpo_{name}", ranked, entry, columns, ranking=True)
    (out / "dataset_info.json").write_text(json.dumps(info))


def _table(out: Path, name: str, rows: list[Row], entry: Row, columns: Row, **more: Any) -> Row:
    (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"file_name": f"{name}.jsonl", **entry, "columns": columns, **more}


def _ranked(row: Row) -> Row:
    question, answer = row["messages"]
    rejected = {"role": "assistant", "content": "bad"}
    return {**row, "messages": [question], "chosen": answer, "rejected": rejected}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
