"""What a recipe says of a repository, and what all recipes share: cells, rows, DeepSpeed files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORLD = 2
STEPS = 3
KINDS = ("text", "image", "image", "text", "image", "image")
"""Of the rows, in order: rank 0 has the first, rank 1 the second, and so on."""
ANSWERS = ("a small red square", "a small blue house", "one two three four", "green grass growth")
RATE = "0.1"


@dataclass(frozen=True)
class Cell:
    """One run of a repository.

    Attributes:
        model: a family of tests/kit/models, or a recipe's own word.
        strategy: ddp, zero2 or zero3.
        tower: frozen or trained.
        tuning: full or lora.
    """

    model: str
    strategy: str
    tower: str
    tuning: str

    @property
    def key(self) -> str:
        """As records and the command line have it."""
        return "/".join((self.model, self.strategy, self.tower, self.tuning))


@dataclass(frozen=True)
class Place:
    """Where a run is made.

    Attributes:
        work: a copy of the repository's ``folder``; the script runs there.
        data: a fresh folder for rows, images and output.
        model: the tiny checkpoint of the cell's family.
        alone: whether it is the reference: one process with the rows of both ranks.
    """

    work: Path
    data: Path
    model: Path
    alone: bool


@dataclass(frozen=True)
class Recipe:
    """A repository.

    Attributes:
        name: owner/name.
        folder: what of its checkout is copied and run in; "" for all.
        script: what is run, for the page.
        over: a section of constraints.txt laid over ``env``.
        changes: names of `inside/named.CHANGES`.
        altered: what else of its script or files is changed, in words.
        words: the command's words behind the launcher; writes the rows it names.
        cells: what is run.
        refused: why it cannot be run; then nothing is.
        skip: ends of names whose gradient is zero but for rounding.
        replayed: a loop, whose reference is plain torch on the batches that its ranks had.
    """

    name: str
    script: str
    words: Callable[[Cell, Place], Sequence[str]] | None = None
    cells: Sequence[Cell] = ()
    folder: str = ""
    env: str = "trl"
    over: str = ""
    changes: Sequence[str] = ()
    altered: str = ""
    variables: Sequence[tuple[str, str]] = ()
    refused: str = ""
    skip: tuple[str, ...] = ()
    replayed: bool = False


def cells(model: str, strategies: Sequence[str], *kinds: str) -> list[Cell]:
    """Of one model: ``kinds`` as "trained/full"."""
    return [Cell(model, each, *kind.split("/")) for each in strategies for kind in kinds]


def conversations(place: Place, kinds: Sequence[str] = KINDS) -> Path:
    """Rows as LLaVA's format has them, in a JSON file; images beside it."""
    rows = []
    for number, kind in enumerate(kinds):
        asked = f"What is number {number} here?"
        row: dict[str, Any] = {"id": str(number)}
        if kind == "image":
            row["image"] = picture(place.data, number)
            asked = f"<image>\n{asked}"
        said = {"from": "gpt", "value": ANSWERS[0]}  # each row trains as many tokens
        row["conversations"] = [{"from": "human", "value": asked}, said]
        rows.append(row)
    file = place.data / "rows.json"
    file.write_text(json.dumps(rows))
    return file


def copied(place: Place, name: str, words: Mapping[str, int]) -> Path:
    """The checkpoint as ``name``, with whole words as tokens that a script has the ids of."""
    out = place.data / name
    shutil.copytree(place.model, out)
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    for file, add in (("tokenizer.json", _token), ("tokenizer_config.json", _decoded)):
        told = json.loads((out / file).read_text())
        for word, number in words.items():
            add(told, number, {"content": word, "special": False, **plain})
        (out / file).write_text(json.dumps(told))
    return out


def configured(place: Place, out: Path, **fields: Any) -> Path:
    """The checkpoint at ``out``, with these fields in its config."""
    shutil.copytree(place.model, out)
    config = out / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))
    return out


def _token(told: dict[str, Any], number: int, entry: dict[str, Any]) -> None:
    told["model"]["vocab"][entry["content"]] = number
    every = [*told["added_tokens"], {"id": number, **entry}]
    told["added_tokens"] = sorted(every, key=lambda each: each["id"])


def _decoded(told: dict[str, Any], number: int, entry: dict[str, Any]) -> None:
    told["added_tokens_decoder"][str(number)] = entry


def picture(folder: Path, number: int, side: int = 56) -> str:
    """The name of a picture in ``folder``, colours drawn by ``number``."""
    import numpy as np
    from PIL import Image

    drawn = np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8)
    name = f"{number}.png"
    Image.fromarray(drawn).save(folder / name)
    return name


SIZES = {
    "reduce_bucket_size": 1000, "stage3_prefetch_bucket_size": 1000,
    "stage3_param_persistence_threshold": 0,
}  # fmt: skip


def deepspeed(place: Place, file: str, sizes: bool = False) -> list[str]:
    """``--deepspeed FILE``: the repository's own, for SGD on a CPU; nothing for one process.

    sizes: "auto" is filled in: an old transformers writes fractions there, which this DeepSpeed
        refuses.
    """
    if place.alone:
        return []
    told = json.loads((place.work / file).read_text())
    told |= {"zero_allow_untested_optimizer": True, "gradient_clipping": 0}
    for name in ("optimizer", "scheduler"):
        told.pop(name, None)
    told["zero_force_ds_cpu_optimizer"] = False
    zero = told["zero_optimization"]
    zero["overlap_comm"] = False
    if sizes:
        zero |= {name: size for name, size in SIZES.items() if zero.get(name) == "auto"}
    for name in ("offload_optimizer", "offload_param"):
        zero.pop(name, None)
    made = place.data / "deepspeed.json"
    made.write_text(json.dumps(told))
    return ["--deepspeed", str(made)]


def trainer(place: Place, **more: Any) -> list[str]:
    """Arguments of a transformers' Trainer that all runs share."""
    options: dict[str, Any] = {
        "output_dir": place.data / "output", "max_steps": STEPS, "optim": "sgd",
        "learning_rate": RATE, "lr_scheduler_type": "constant", "max_grad_norm": "0",
        "weight_decay": "0", "per_device_train_batch_size": 1, "save_strategy": "no",
        "gradient_accumulation_steps": WORLD if place.alone else 1, "logging_steps": 1,
        "report_to": "none", "dataloader_num_workers": 0, "use_cpu": True,
        "ddp_backend": "gloo", "gradient_checkpointing": not place.alone,
    }  # fmt: skip
    options |= more
    return [word for name, value in options.items() if value is not None
            for word in (f"--{name}", str(value))]  # fmt: skip
