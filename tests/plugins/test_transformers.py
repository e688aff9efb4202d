from __future__ import annotations

import contextlib
import types

import pytest
import torch
from torch import nn

from vlmguard_swift import encoded
from vlmguard_torch.layout import parameters, towers
from vlmguard_torch.media import families
from vlmguard_torch.media.kinds import kinds_of, untold
from vlmguard_torch.transaction import Transaction

PATHS = {"vision": ("visual",), "aligner": ("visual.merger",), "llm": ("model", "lm_head")}


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = nn.ModuleDict({"block": nn.Linear(2, 2), "merger": nn.Linear(2, 2)})
        self.model = nn.Linear(2, 2)

    def forward(self, text, image=None):
        out = self.model(text)
        return out if image is None else out + self.visual["merger"](self.visual["block"](image))


def _on(kind):
    return True


def test_towers_by_longest_path():
    model = TwoTowers()
    model.visual["block"].requires_grad_(False)
    found = {t.kind: (t.total, t.trainable) for t in parameters.towers(model, PATHS, _on)}
    assert found == {"vision": (2, 0), "aligner": (2, 2), "llm": (2, 2)}


def test_freeze_words_paths_and_globs():
    found = parameters.matching(TwoTowers(), ("aligner", "visual", "*.bias", "nothing"), PATHS)
    assert [len(pairs) for pairs in found.values()] == [2, 4, 3, 0]


def test_peft_prefixes():
    assert towers.plain("base_model.model.visual.q.base_layer.weight") == "visual.q.weight"


def test_tied_blocks():
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert not parameters.shares_blocks(layers)
    layers[1].weight = layers[0].weight
    assert parameters.shares_blocks(layers)


def test_a_failed_apply_restores():
    thing = types.SimpleNamespace(a=1)
    transaction = Transaction()
    with contextlib.suppress(OSError), transaction:
        transaction.set(thing, "a", 2)
        transaction.set(thing, "b", 3)
        raise OSError("boom")
    assert vars(thing) == {"a": 1}


def test_a_change_of_arguments_and_model_alike_is_said_once():
    transaction, thing = Transaction(), types.SimpleNamespace(a=1, b=1)
    transaction.set(thing, "a", 2, "use_reentrant: True → False")
    transaction.set(thing, "b", 2, "use_reentrant: True → False")
    assert transaction.changes == {"variant": ["use_reentrant: True → False"]}
    assert vars(thing) == {"a": 2, "b": 2}


def test_llavas_last_vision_layer_is_untrained_by_design():
    vision = types.SimpleNamespace(num_hidden_layers=3)
    config = types.SimpleNamespace(
        model_type="llava", vision_feature_layer=-2, vision_config=vision
    )
    parts = families.of(config).untrained(config)
    assert parts == ("post_layernorm", "encoder.layers.2.")


@pytest.mark.parametrize(
    ("inputs", "kinds"),
    [
        ({"pixel_values": 1}, ("image",)),
        ({"pixel_values": None}, ("text",)),
        ({"pixel_values_videos": 1}, ("video",)),
        ({"chosen_pixel_values": 1, "images": []}, ("image",)),
        ({"images": [1], "image_sizes": [2]}, ("image",)),
        ({"media": {"image": [], "video": [1]}, "images": None}, ("video",)),
        ({"media": {"image": []}, "image_flags": 0}, ("text",)),
        ({"pixel_values": [[], []], "tgt_sizes": [[], []]}, ("text",)),  # MiniCPM-V's text rows
        ({"pixel_values": [[], [torch.ones(3, 8, 8)]]}, ("image",)),
        ({"pixel_values": [], "input_features": torch.ones(0, 8)}, ("text",)),
        ({"pixel_values_videos": torch.ones(1, 3), "pixel_values": torch.ones(0, 3)}, ("video",)),
        ([1, 2], ()),
        ([{"prompt": "a", "image": None}, {"prompt": "b", "image": 1}], ("image",)),
        ([{"prompt": "a"}], ()),  # its messages may hold some
    ],
)
def test_kinds_of(inputs, kinds):
    assert kinds_of(inputs) == kinds


IMAGE = torch.ones(1, 3, 8, 8)
IDS = {"input_ids": torch.ones(1, 4, dtype=torch.long), "attention_mask": IMAGE}


MAY_BE = [IMAGE, IMAGE.numpy(), [[IMAGE]], {"pixel_values": 1}, {"a": IMAGE}]
IS_NONE = [None, [], {}, IMAGE[0, 0], IMAGE[:0], [1.5, "a.png"], IMAGE.long()]
IS_NONE += [types.SimpleNamespace(shape=3)]


@pytest.mark.parametrize("value", MAY_BE)
def test_what_may_be_media_under_a_key_of_nobodys(value):
    assert untold({**IDS, "tiles": value})
    assert not untold({**IDS, "images": IMAGE, "tiles": value}), "it is told what it holds"


@pytest.mark.parametrize("value", IS_NONE)
def test_and_what_is_none(value):
    assert not untold({**IDS, "tiles": value})


QWEN = types.SimpleNamespace(
    model_type="qwen2_vl",
    image_token_id=9,
    video_token_id=8,
    vision_config=types.SimpleNamespace(spatial_merge_size=2),
)
GRID = torch.tensor([[1, 4, 4]])  # 16 patches, 4 tokens


def qwen_batch(*rows):
    return encoded.Look(types.SimpleNamespace(config=QWEN), list(rows)).batch()


def image_row(count=4, prefix="", **more):
    row = {"input_ids": [1] + [9] * count, "pixel_values": GRID, "image_grid_thw": GRID, **more}
    return {prefix + key: value for key, value in row.items()}


def test_encoded_rows_become_samples():
    good = qwen_batch(image_row()).samples[0]
    assert (good.placeholders, good.expected, good.missing) == (4, 4, ())
    assert qwen_batch(image_row(count=3)).samples[0].placeholders == 3
    assert qwen_batch(image_row(image_grid_thw=None)).samples[0].missing == ("image_grid_thw",)
    assert qwen_batch({"input_ids": [1, 2]}).kinds == ("text",)


def test_pairs_and_packed_rows():
    pair = {**image_row(prefix="chosen_"), **image_row(count=2, prefix="rejected_")}
    assert [s.prefix for s in qwen_batch([pair]).samples] == ["chosen_", "rejected_"]


@pytest.mark.parametrize("name", families.MODEL_TYPES)
def test_keys_that_a_family_needs_are_looked_for_in_rows(name):
    """A key that is not looked for is never found: VG201 would report every healthy row."""
    config = types.SimpleNamespace(model_type=families.MODEL_TYPES[name][0])
    needs = families.of(config).needs
    unknown = {*needs, *(key for keys in needs.values() for key in keys)} - {*encoded.VISUAL}
    assert not unknown, f"{name}.NEEDS: add to VISUAL in vlmguard_swift/encoded.py: {unknown}"


def test_unknown_families_are_not_judged():
    template = types.SimpleNamespace(config=types.SimpleNamespace(model_type="new"))
    sample = encoded.Look(template, [image_row(count=1)]).batch().samples[0]
    assert (sample.placeholders, sample.expected, sample.missing) == (None, None, ())
    assert families.of(template.config) is None
