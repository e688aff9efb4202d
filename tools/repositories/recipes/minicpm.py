"""OpenBMB/MiniCPM-V: finetune/trainer.py, its own training_step, by a script of ours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.repositories.recipe import (
    Cell,
    Place,
    Recipe,
    cells,
    configured,
    conversations,
    deepspeed,
    trainer,
)

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "minicpm.py"


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = conversations(place)
    shutil.copy(PROGRAM, place.work / "ours.py")
    model = configured(place, place.data / "model", image_seq_length=4, vocab_size=320)
    file = f"ds_config_{cell.strategy}.json"
    return [
        *("ours.py", "--model", str(model), "--rows", str(rows)),
        *("--tune_vision", str(cell.tower == "trained"), "--label_names", "labels"),
        *(deepspeed(place, file, sizes=True) if cell.strategy != "ddp" else []),
        *trainer(place, eval_strategy="no", remove_unused_columns=False),
    ]


RECIPE = Recipe(
    name="OpenBMB/MiniCPM-V",
    folder="finetune",
    script="finetune/trainer.py",
    over="repositories-4.45",
    words=_words,
    cells=[
        *cells("llava", ("zero2", "zero3"), "trained/full"),
        *cells("llava", ("zero2", "ddp"), "frozen/full"),
    ],
    changes=("order", "alone", "synchronize", "groups"),
    altered="only its trainer.py is used, because finetune.py loads the model's code from the hub; "
    "sizes that are auto in the DeepSpeed file are filled in, for this model's config has none",
)
