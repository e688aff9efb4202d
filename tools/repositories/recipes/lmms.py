"""zjysteven/lmms-finetune: example_scripts/example_image.sh with LLaVA-1.5."""

# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Sequence

from tools.repositories.recipe import (
    KINDS,
    Cell,
    Place,
    Recipe,
    cells,
    configured,
    conversations,
    deepspeed,
    trainer,
)

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<image>{% endif %}{% endfor %}{% for c in m['content'] %}{% if c['type'] == 'text' %}"
    "{% if m['role'] == 'assistant' %}{% generation %}{{ c['text'] }}</s>{% endgeneration %}"
    "{% else %}{{ c['text'] }}{% endif %}{% endif %}{% endfor %}\n{% endfor %}"
)
"""llava-hf's own marks what the assistant says, too."""


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = conversations(place, ["image"] * len(KINDS))
    model = place.work / "llava-hf" / "llava-1.5-7b-hf"
    configured(place, model, image_seq_length=4)  # as many tokens as its tower gives
    (model / "chat_template.jinja").unlink(missing_ok=True)
    (model / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    lora, sees = cell.tuning == "lora", cell.tower == "trained"
    return [
        *("train.py", "--model_id", "llava-1.5-7b", "--data_path", str(rows)),
        *("--image_folder", str(place.data), "--model_max_length", "256"),
        *("--train_vision_encoder", str(sees), "--use_vision_lora", str(lora and sees)),
        *("--train_vision_projector", str(sees), "--use_lora", str(lora), "--q_lora", "False"),
        *("--lora_r", "4", "--lora_alpha", "8", "--lora_dropout", "0"),
        *deepspeed(place, f"ds_configs/{cell.strategy}.json"),
        *trainer(place, eval_strategy="no"),
    ]


RECIPE = Recipe(
    name="zjysteven/lmms-finetune",
    script="train.py",
    over="repositories-4.45",
    words=_words,
    cells=[
        *cells("llava", ("zero3", "zero2"), "trained/full"),
        *cells("llava", ("zero3",), "frozen/lora", "frozen/full"),
        *cells("llava", ("zero2",), "trained/lora"),
    ],
    changes=("alone", "synchronize", "groups"),
    altered="every row has an image: its collators fail on one without",
)
