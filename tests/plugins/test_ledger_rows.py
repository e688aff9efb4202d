"""The reader of the station "rows": batches as a collator makes them, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.toys import Config
from vlmguard.ledger.account import Account
from vlmguard.ledger.judged_window import Judge
from vlmguard_torch.ledger.gradients.unreadable import divides
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers import special, text
from vlmguard_torch.ledger.readers.rows import ROWS, WIDTH, Rows
from vlmguard_torch.ledger.watcher import as_json

PAD, BOS, EOS, IMAGE = 0, 1, 2, 50
LONG = 12


class Tokenizer:
    pad_token_id, eos_token_id, bos_token_id = PAD, EOS, BOS

    def decode(self, ids):
        return f"w{ids[0]} "


class Processor:
    tokenizer = Tokenizer()


def subject(tokenizer=None, **told):
    model = nn.Linear(1, 1)
    fields = {"image_token_id": IMAGE, "text_config": Config(eos_token_id=[EOS, 99])} | told
    model.config = Config(**fields)
    parameters, tokenizer = tuple(model.parameters()), tokenizer or Processor()
    return Subject(model, None, parameters, Account(()), tokenizer=tokenizer)


def batch(seed=0, rows=2, **changed):
    """Begin, an image of three tokens, words, an answer of four, an end, a pad."""
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 40, (rows, LONG), generator=chance)
    ids[:, 0], ids[:, 1:4], ids[:, -2], ids[:, -1] = BOS, IMAGE, EOS, PAD
    labels = ids.masked_fill((torch.arange(LONG) < 6) | (ids == PAD), -100)
    pixels = torch.randn(rows, 3, 8, 8, generator=chance)
    told = {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels,
            "pixel_values": pixels}  # fmt: skip
    return told | {key: change(told) for key, change in changed.items()}


def judged(*batches, windows=1, reader=None):
    """The last verdict, if each window has these batches."""
    reader = reader or Rows(subject())
    judge = Judge(Account((), text=text.of(Processor())), ["rows"])
    for step in range(1, windows + 1):
        reader.open()
        for each in batches:
            reader.batch(each)
        found = reader.page()
        base = {"step": step, "rank": 0, "unread": {}}
        page = base | ({"unread": {"rows": found}} if isinstance(found, str) else {"rows": found})
        verdict = judge.window([as_json(page)])[0]
        reader.close()
    return verdict


def told(verdict):
    return [(entry.code, entry.level, entry.why.split(":")[0]) for entry in verdict.entries]


def test_a_collated_batch_balances():
    verdict = judged(batch(), batch(1))
    assert (verdict.state, verdict.entries) == ("balances", ())
    assert (verdict.shown["targets"], verdict.shown["count"]) == (20, 4)


def patched(patches, *grids):
    """Images that are cut in patches, as Qwen's."""
    pixels = torch.randn(patches, 12, generator=torch.Generator().manual_seed(3))
    grid = torch.tensor(grids)
    return batch(pixel_values=lambda _: pixels, image_grid_thw=lambda _: grid)


def test_fewer_pixels_than_grids():
    assert judged(patched(8, (1, 2, 2), (1, 2, 2))).entries == ()
    verdict = judged(patched(4, (1, 2, 2), (1, 2, 2)))
    assert told(verdict) == [("VG611", "warning", "fewer pixels than grids")]
    assert "4 patches, and grids of 8" in verdict.entries[0].why


def test_a_row_is_shown_as_text_with_its_targets():
    (shown,) = judged(batch()).shown["rows"]
    assert shown["pieces"][:2] == [["w1 ", None], ["w50 ", None]]
    assert shown["pieces"][-1] == ["w2 ", True]
    assert len(shown["pieces"]) == LONG - 1  # the pad is left out


def mask_images(told):
    return torch.where(told["input_ids"] == IMAGE, IMAGE, told["labels"])


ODD = {
    "placeholders": ({"labels": mask_images}, "warning", "6 targets are placeholders of images"),
    "pads": ({"labels": lambda t: torch.where(t["input_ids"] == PAD, PAD, t["labels"])}, "warning",
             "2 targets are pads"),
    "begins twice": ({"input_ids": lambda t: t["input_ids"].index_fill(1, torch.tensor([1]), BOS)},
                     "warning", "the text begins twice"),
    "no target": ({"labels": lambda t: t["labels"] * 0 - 100}, "warning", "2 of 2 rows have no"),
    "shifted": ({"labels": lambda t: t["labels"].roll(-1, 1)}, "note", "labels are the next"),
    "others": ({"labels": lambda t: t["labels"].roll(1, 0)}, "note", "most targets are"),
    "end masked": ({"labels": lambda t: t["labels"].masked_fill(t["labels"] == EOS, -100)}, "note",
                   "the end-of-text token"),
    "all": ({"labels": lambda t: t["input_ids"].masked_fill(t["input_ids"] == PAD, -100)
             .masked_fill(t["input_ids"] == IMAGE, -100)}, "note", "every token is a target"),
    "packed": ({"position_ids": lambda t: torch.arange(LONG).remainder(5)[None].repeat(2, 1)},
               "note", "packed rows"),
    "begins again": ({"input_ids": lambda t: t["input_ids"].index_fill(1, torch.tensor([5]), BOS)},
                     "note", "several texts begin in one row"),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_is_told(odd):
    changed, level, why = ODD[odd]
    verdict = judged(batch(**changed))
    ((code, found, said),) = told(verdict)
    assert (code, found) == ("VG610", level)
    assert said.startswith(why)


def test_the_oddest_rows_are_kept():
    def last_masked(told):
        labels = told["labels"].clone()
        labels[3] = -100
        return labels

    verdict = judged(batch(rows=4, labels=last_masked))
    assert [(row["row"], bool(row["why"])) for row in verdict.shown["rows"]] == [(3, True)]


def test_ends_that_are_pads_too_are_no_pads():
    """Where a tokenizer fills up with its end, only the mask tells what is a pad."""
    known = special.of(subject(pad_token_id=EOS).model, None)
    assert (known.only_pad, known.eos, known.media) == ((), (EOS, 99), (IMAGE,))


def test_a_deprecated_property_of_a_config_is_not_asked():
    class Config:  # Idefics3's warns once, which the run would not have done
        image_token_id = IMAGE

        @property
        def pad_token_id(self):
            raise AssertionError

    model = subject().model
    model.config = Config()
    model.config.eos_token_id = 7
    assert special.of(model, None).eos == (7,)


HEALTHY = {
    "left pads": {key: lambda t, key=key: t[key].roll(1, 1)
                  for key in ("input_ids", "attention_mask", "labels")},
    "no mask": {"attention_mask": lambda t: None},
    "own mask": {"attention_mask": lambda t: torch.zeros(2, 1, LONG, LONG)},
    "positions": {"position_ids": lambda t: torch.arange(LONG)[None].repeat(3, 2, 1)},
    "packed": {"position_ids": lambda t: torch.arange(LONG).remainder(5)[None].repeat(2, 1),
               "attention_mask": lambda t: None},
    "no labels": {"labels": lambda t: None},
    "other labels": {"labels": lambda t: torch.zeros(2, 3).long()},
    "video": {"pixel_values": lambda t: None,
              "pixel_values_videos": lambda t: torch.ones(1, 2, 3, 8, 8)},
    "made before": {"pixel_values": lambda t: None, "image_embeds": lambda t: torch.ones(6, 4)},
    "a list": {"pixel_values": lambda t: [*t["pixel_values"]]},
    "patches": {"pixel_values": lambda t: t["pixel_values"].reshape(32, 12),
                "image_grid_thw": lambda t: torch.tensor([[1, 4, 4], [1, 4, 4]])},
    "half": {"pixel_values": lambda t: t["pixel_values"].bfloat16()},
}  # fmt: skip


@pytest.mark.parametrize("healthy", HEALTHY)
def test_healthy_batches_are_none(healthy):
    batches = [batch(seed, **HEALTHY[healthy]) for seed in range(2)]
    assert judged(*batches, windows=3).entries == ()


PIXELS = {
    "not normalised": lambda t: (t["pixel_values"].sigmoid() * 255).round(),
    "constant": lambda t: torch.full_like(t["pixel_values"], -1.8),
    "of 0 to 255, as patches": lambda t: (t["pixel_values"].sigmoid() * 255).reshape(32, 12),
}


@pytest.mark.parametrize("kind", PIXELS)
def test_odd_pixels_are_told(kind):
    more = {"image_grid_thw": lambda t: torch.tensor([[1, 4, 4]] * 2)} if "patches" in kind else {}
    batches = [batch(seed, pixel_values=PIXELS[kind], **more) for seed in range(2)]
    assert [each[:2] for each in told(judged(*batches, windows=2))] == [("VG611", "warning")]


def test_patches_are_put_together_by_their_grids():
    pixels = torch.randn(24, 12)
    grids = torch.tensor([[1, 2, 4], [1, 4, 4]])
    reader = Rows(subject())
    reader.batch(batch(pixel_values=lambda t: pixels, image_grid_thw=lambda t: grids))
    low, high, total, norm = reader.page()["images"][1].tolist()
    image = pixels[8:]
    assert (low, high) == (image.min().item(), image.max().item())
    assert [total, norm] == pytest.approx([image.sum().item(), image.norm().item()], abs=1e-4)


def test_placeholders_without_pixels_are_told():
    verdict = judged(batch(pixel_values=lambda t: None, input_ids=lambda t: t["input_ids"]
                           .index_fill(1, torch.arange(1, 6), IMAGE)))  # fmt: skip
    assert ("VG611", "warning") in [each[:2] for each in told(verdict)]


def test_digests_are_those_of_tokens_and_targets():
    reader, numbers = Rows(subject()), []
    masked = {"labels": lambda t: t["labels"].masked_fill(t["labels"] == EOS, -100)}
    for each in (batch(), batch(), batch(1), batch(**masked)):
        reader.open()
        reader.batch(each)
        numbers.append(reader.page()["digests"].tolist())
    assert numbers[0] == numbers[1]
    assert len({tuple(each) for each in numbers}) == 3


def test_many_and_long_rows_stay_few_numbers():
    reader = Rows(subject())
    for seed in range(20):
        ids = torch.randint(5, 40, (8, 2000), generator=torch.Generator().manual_seed(seed))
        labels = ids.masked_fill(torch.arange(2000) < 1500, -100)
        reader.batch({"input_ids": ids, "labels": labels})
    page = reader.page()
    assert len(page["counts"]) == len(page["digests"]) == ROWS
    assert sum(page["sizes"]) == 160
    assert [tuple(part["ids"].shape) for part in page["kept"]] == [(2, WIDTH)] + [(1, WIDTH)] * 3
    assert (page["kept"][0]["marks"] == 2).any(-1).all()
    reader.close()
    assert reader.page() == "no forward was seen"


def test_embeddings_instead_of_ids_cannot_be_told():
    verdict = judged({"inputs_embeds": torch.zeros(1, 2, 3)})
    assert (verdict.state, verdict.reason) == ("cannot tell", "the model is not given token ids")


class Generates(nn.Linear):
    """As transformers' classes answer."""

    answer = True

    def can_generate(self):
        return self.answer


class Masked(Generates):
    answer = False


def of_class(model, **config):
    model.config = Config(**config)
    return Rows(replace(subject(), model=model))


def test_a_rank_tells_that_it_shares_its_rows():
    """Through what the trainer says, a DeepSpeed engine, or a tensor that is split."""
    plain = replace(subject(), account=Account((), 4))
    split = SimpleNamespace(device_mesh="of two ranks")
    engine = SimpleNamespace(dp_world_size=2)
    for found, shared in (
        (plain, False),
        (replace(plain, engine=SimpleNamespace(dp_world_size=4)), False),
        (replace(plain, extra={"shares_rows": True}), True),
        (replace(plain, engine=engine), True),
        (replace(plain, parameters=(split,)), True),
    ):
        reader = Rows(found)
        reader.batch(batch())
        assert reader.page()["shared"] is shared
        assert divides(found) is (shared and not found.extra)


def masked(told):
    """As BERT's collator: some words are hidden, and only those are targets."""
    return torch.where(told["labels"] == -100, told["input_ids"], 4)


CLASSES = {
    "causal": (Generates(1, 1), {}, True),
    "no class that says so": (nn.Linear(1, 1), {}, True),
    "a language model inside a class of a user's": (nn.Sequential(Generates(1, 1)), {}, True),
    "masked": (Masked(1, 1), {}, False),
    "an encoder with a decoder": (Generates(1, 1), {"is_encoder_decoder": True}, False),
}


@pytest.mark.parametrize("case", CLASSES.values(), ids=CLASSES)
def test_labels_are_next_tokens_only_of_a_causal_model(case):
    model, config, causal = case
    verdict = judged(batch(input_ids=masked), reader=of_class(model, **config))
    assert ("targets" in verdict.shown) is causal
    assert any("not the row's own tokens" in entry.why for entry in verdict.entries) is causal


def test_an_id_below_zero_stands_for_media_and_is_not_decoded():
    class Tokenizer:
        def decode(self, ids):
            if ids[0] < 0:
                raise IndexError("piece id is out of range")
            return f"w{ids[0]}"

    assert text.of(Tokenizer())([5, -200, 6]) == ["w5", "<-200>", "w6"]
