"""``pre_step`` on a batch: 8 rows of 8,192 tokens with two images each, as ms-swift has them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import torch

from tools.bench import measure
from vlmguard import guard
from vlmguard.core import runstate, settings
from vlmguard.core.facts import Run
from vlmguard_swift import batches, encoded

ROWS, TOKENS, IMAGES = 8, 8192, 2
GRID = (1, 40, 60)  # 600 tokens behind the merger
IMAGE = 151655
TEMPLATE = SimpleNamespace(
    config=SimpleNamespace(
        model_type="qwen2_vl", image_token_id=IMAGE, video_token_id=151656,
        vision_start_token_id=151652, vision_config=SimpleNamespace(spatial_merge_size=2),
    )
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Encoded rows: token ids as lists, as a tokenizer gives them, every one an object."""
    draw = random.Random(1)
    return [_row(draw) for _ in range(ROWS)]


def _row(draw: random.Random) -> dict[str, Any]:
    tokens = [draw.randrange(1000, 150000) for _ in range(TOKENS)]
    number = GRID[1] * GRID[2] // 4
    for image in range(IMAGES):
        at = 100 + image * 3000
        tokens[at : at + number] = [int(str(IMAGE)) for _ in range(number)]
    return {
        "input_ids": tokens,
        "pixel_values": torch.zeros(1),
        "image_grid_thw": torch.tensor([GRID] * IMAGES),
    }


def collated(encoded_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What ms-swift's collator makes of lists: a tensor a row, padded, side by side."""
    tensors = [torch.tensor(row["input_ids"]) for row in encoded_rows]
    return {"input_ids": torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)}


def pre_step(quick: bool) -> dict[str, Any]:
    """A collation with us around it beside one without; and rows judged from their lists."""
    number = measure.number(quick, 5, 200)
    torch.set_num_threads(1)
    state = runstate.RunState(settings.get(), run=Run("ms-swift", world=2))
    runstate.opened(state)
    try:
        made = rows()
        done = collated(made)
        batches.collate(lambda _: done, TEMPLATE, (made,), {})  # imports what it needs
        around = measure.pairs(
            lambda: measure.called(lambda: batches.collate(lambda _: done, TEMPLATE, (made,), {})),
            lambda: measure.called(lambda: (lambda _: done)(made)),
            number,
        )
        alone = measure.pairs(
            lambda: measure.called(
                lambda: guard.pre_step(state.run, batch=encoded.Look(TEMPLATE, made).batch())
            ),
            lambda: measure.called(lambda: None),
            number,
        )
        whole = measure.pairs(
            lambda: measure.called(lambda: batches.collate(collated, TEMPLATE, (made,), {})),
            lambda: measure.called(lambda: collated(made)),
            max(3, number // 4),
        )
    finally:
        runstate.closed(state)
    what = f"`pre_step` on {ROWS} × {TOKENS:,} tokens with {ROWS * IMAGES} images"
    return {
        "rows": [
            measure.more(f"{what}, as they are collated", around, "µs", 300.0).data(),
            measure.more(f"{what}, from lists alone", alone, "µs", None).data(),
            measure.ratio("the collation itself with it, beside without", whole).data(),
        ]
    }
