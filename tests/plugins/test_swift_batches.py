"""ms-swift's collation: rows are looked at before it, judged by what it makes of them."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from vlmguard.core import runstate, settings
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard_swift import batches, counting, encoded

IMAGE, VIDEO = 9, 8
IDS = frozenset({IMAGE, VIDEO})
TEMPLATE = SimpleNamespace(
    config=SimpleNamespace(
        model_type="qwen2_vl", image_token_id=IMAGE, video_token_id=VIDEO,
        vision_start_token_id=7, vision_config=SimpleNamespace(spatial_merge_size=2),
    )
)  # fmt: skip


@pytest.fixture(autouse=True)
def guarded():
    state = runstate.RunState(settings.get(), run=Run("ms-swift", world=2))
    runstate.opened(state)
    yield state
    runstate.closed(state)


def row(placeholders=4, prefix="", images=1):
    made = {f"{prefix}input_ids": [1, 7, *[IMAGE] * placeholders, 2]}
    if images:
        made[f"{prefix}pixel_values"] = torch.zeros(1)
        made[f"{prefix}image_grid_thw"] = torch.tensor([[1, 4, 4]] * images)
    return made


def collator(rows):
    """As ms-swift's: takes entries out of the rows."""
    for each in rows:
        each.pop("pixel_values", None)
        each.pop("image_grid_thw", None)
    tensors = [torch.tensor(each["input_ids"]) for each in rows]
    return {"input_ids": torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)}


def collate(*rows, wrapped=collator):
    return batches.collate(wrapped, TEMPLATE, (list(rows),), {})


def test_right_rows_are_collated_and_no_row_is_counted_by_itself(monkeypatch):
    monkeypatch.setattr(counting, "in_list", lambda *_: pytest.fail("counted"))
    assert collate(row(), row(0, images=0))["input_ids"].shape == (2, 7)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([row(), row(3)], "VG202: sample 1 of this batch has 3 image tokens"),
        ([row(), row(4, images=0)], "VG201: sample 1 of this batch has 4 image tokens"),
        ([row(3), row(5)], "VG202: sample 0"),  # the sum is right, the rows are not
    ],
)
def test_the_wrong_row_is_named(rows, code):
    with pytest.raises(Stop, match=code):
        collate(*[dict(each) for each in rows])


def test_a_placeholder_that_the_policy_sampled_is_no_missing_input(guarded):
    """GRPO's completions come back as rows; in a row of the user's it would be missing."""
    sampled = {**row(0, images=0), "labels": [-100, 7, IMAGE]}
    sampled["input_ids"] = [1, 7, IMAGE]
    beside = {**row(4), "labels": [-100] * 7 + [IMAGE]}
    beside["input_ids"] = [*beside["input_ids"], IMAGE]
    with pytest.raises(Stop, match="VG201"):
        collate(dict(sampled))
    with pytest.raises(Stop, match="VG202"):
        collate(dict(beside))
    guarded.run = replace(guarded.run, samples=True)
    collate(dict(sampled))
    collate(dict(beside))
    cut = {**row(3), "labels": [-100] * 6}
    with pytest.raises(Stop, match="VG202"):
        collate(cut)


@pytest.mark.parametrize(("training", "phase"), [(True, "train"), (False, "generate")])
def test_prompts_to_sample_from_are_no_training_batch(training, phase, monkeypatch):
    heard = []
    monkeypatch.setattr(batches.guard, "pre_step", lambda state, batch: heard.append(batch.phase))
    template = SimpleNamespace(**vars(TEMPLATE), is_training=training)
    batches.collate(collator, template, ([row()],), {})
    assert heard == [phase]


def test_where_nothing_trains_nothing_is_judged(guarded):
    """Inference goes through the same template."""
    runstate.closed(guarded)
    collated = collate(row(3), row(0, images=1))
    assert collated["input_ids"].shape == (2, 6)


def test_where_collation_fails_over_a_wrong_row_the_row_is_named():
    def fails(rows):
        raise IndexError("shape mismatch")

    with pytest.raises(Stop, match="VG202") as stopped:
        collate(row(3), wrapped=fails)
    assert isinstance(stopped.value.__context__, IndexError)
    with pytest.raises(IndexError, match="shape mismatch"):
        collate(row(), wrapped=fails)


def test_pairs_and_packed_rows_agree_in_any_order():
    tokens = torch.tensor([[IMAGE, 1, 1], [IMAGE, IMAGE, 1]])
    assert counting.agrees({"input_ids": tokens}, IDS, [2, 1])
    assert not counting.agrees({"input_ids": tokens}, IDS, [3, 0])
    assert counting.agrees({"input_ids": tokens.view(1, 6)}, IDS, [2, 1])
    assert not counting.agrees({"input_ids": tokens.view(1, 6)}, IDS, [2, 2])
    for other in (None, [], {}, {"input_ids": [[IMAGE]]}, {"input_ids": torch.tensor([IMAGE])}):
        assert not counting.agrees(other, IDS, [1])


@pytest.mark.parametrize("least", [0, -200])
def test_a_list_is_counted_as_a_loop_would(least):
    draw = random.Random(1)
    for length in (0, 1, 500):
        tokens = [draw.randrange(least, 12) for _ in range(length)]
        assert counting.in_list(tokens, IDS) == sum(token in IDS for token in tokens)


def test_a_row_of_embeddings_or_of_an_unknown_family_is_left_alone():
    odd = {**row(3), "inputs_embeds": torch.zeros(1)}
    assert collate(odd)["input_ids"].shape == (1, 6)
    other = SimpleNamespace(config=SimpleNamespace(model_type="other"))
    assert encoded.Look(other, [row(3)]).batch().samples[0].placeholders is None


class Template:
    """As ms-swift's: encodes, collates, and is copied into spawned workers."""

    config = TEMPLATE.config

    def encode(self, row, **_):
        return row

    def data_collator(self, rows):
        return batches.collate(self._collate, self, (rows,), {})

    def _collate(self, rows):
        return rows[0]["labels"]


class Replacing:
    """As ms-swift's lazy data set, where each row failed to encode."""

    def __init__(self, template):
        self.encode_func, self._idx, self.dataset = template.encode, 0, []

    def __len__(self):
        return 2

    def __getitem__(self, idx):
        return batches.fetch(self._next, self, (idx,), {})

    def _next(self, idx):
        self._idx += 1
        return {"input_ids": [1], "labels": idx}


def _refusing():
    """A run under which a replaced row stops, and its template."""
    state, template = runstate.RunState(settings.Settings({"VG203": "error"})), Template()
    state.run = Run("ms-swift", world=2)
    runstate.bind(template, state)
    runstate.opened(state)
    return state, template


def test_rows_are_judged_under_the_run_of_their_template(guarded):
    """Two runs in one process: what one refuses, the other takes."""
    mine = Template()
    runstate.bind(mine, guarded)
    refusing, its = _refusing()
    assert Replacing(mine)[0]["labels"] == 0
    with pytest.raises(Stop, match="VG203"):
        Replacing(its)[0]
    assert (guarded.counts["warned"], refusing.counts["stopped"]) == (1, 1)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_knows_the_run_of_its_loader(guarded, method, monkeypatch):
    """Forked workers by memory; spawned ones by the environment, under the settings published."""
    monkeypatch.setenv("VLMGUARD_RULES", "VG203=error")
    settings.renew()
    _, template = _refusing()
    data = torch.utils.data.DataLoader(
        Replacing(template), collate_fn=template.data_collator, num_workers=1,
        multiprocessing_context=method,
    )  # fmt: skip
    with pytest.raises(Stop, match="VG203"):
        list(data)
    if method == "fork":
        runstate.bind(template, guarded)  # the run that takes what the other refuses
        assert list(data) == [0, 1]
