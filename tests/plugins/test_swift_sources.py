"""ms-swift's encoded rows judged beside the rows of the data that they were made from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vlmguard.core.facts import Run
from vlmguard.rules import vg201_missing_pixels as vg201
from vlmguard.rules import vg202_count_mismatch as vg202
from vlmguard_swift import encoded, row_origin

START, IMAGE = 151652, 151655
CONFIG = SimpleNamespace(
    model_type="qwen2_vl", image_token_id=IMAGE, video_token_id=151656, vision_start_token_id=START
)
TEMPLATE = SimpleNamespace(config=CONFIG)
RUN = Run("ms-swift")


def says(rule, *rows):
    return rule.pre_step(RUN, encoded.Look(TEMPLATE, list(rows)).batch())


def source(text, **media):
    return {"messages": [{"role": "user", "content": text}], **media}


@pytest.fixture(autouse=True)
def _forget():
    yield
    row_origin._noted.clear()


def test_text_that_talks_about_a_placeholder_is_text():
    row = {"input_ids": [1, IMAGE, 2]}
    row_origin.note(row, [source("What is <|image_pad|>?", images=None)], 0)
    assert says(vg201, row) is None
    assert says(vg201, {"input_ids": [1, IMAGE, 2]}) is None  # no source, but no vision start


def test_lost_pixels_name_the_row_by_what_it_says():
    row = {"input_ids": [1, START, IMAGE, IMAGE, 2]}
    assert "sample 0 of this batch has 2 image tokens" in says(vg201, row).why
    row_origin.note(row, [source("other"), source("<image>what  colour?", images=["a.png"])], 1)
    assert says(vg201, row).why.startswith('the row "<image>what colour?" has 2 image tokens')


def test_media_in_messages_and_in_tags_count():
    parts = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "?"}]
    assert row_origin.media({"messages": [{"role": "user", "content": parts}]}) == 1
    assert row_origin.media(source("<img>a.png</img>")) is None
    several = source("?", images=[], videos=["a.mp4"], rejected_images=["b.png"])
    assert row_origin.media(several) == 2
    assert row_origin.media(source("?")) == 0


def test_another_row_in_the_same_place_of_memory_is_not_mistaken():
    row = {"input_ids": [1, START, IMAGE]}
    row_origin.note(row, [source("text")], 0)
    row["input_ids"].append(2)
    assert row_origin.of(row) is None
    assert says(vg201, row) is not None


def test_few_rows_are_remembered():
    data = [source("text")]
    kept = [{"input_ids": [number]} for number in range(row_origin.MOST + 3)]
    for row in kept:
        row_origin.note(row, data, 0)
    assert len(row_origin._noted) == row_origin.MOST
    assert row_origin.of(kept[0]) is None
    assert row_origin.of(kept[-1]) is data[0]


def test_a_cut_row_is_named_too():
    import torch

    config = SimpleNamespace(**vars(CONFIG), vision_config=SimpleNamespace(spatial_merge_size=2))
    grid = torch.tensor([[1, 4, 4]])
    row = {"input_ids": [START, IMAGE, IMAGE], "pixel_values": grid, "image_grid_thw": grid}
    row_origin.note(row, [source("<image>cut", images=["a.png"])], 0)
    found = vg202.pre_step(RUN, encoded.Look(SimpleNamespace(config=config), [row]).batch())
    assert found.why.startswith('the row "<image>cut" has 2 image tokens')
