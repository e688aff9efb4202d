"""Rows are sampled, sorted by kind, and put in orders that ranks can meet."""

from __future__ import annotations

import json
import random

import pytest

from vlmguard.check.reading.named_files import Unreadable
from vlmguard.check.reading.row_kinds import kind
from vlmguard.rehearse import stand_in_rows, training_rows

TEXT = {"messages": [{"role": "user", "content": "a"}]}
IMAGE = {**TEXT, "images": ["a.png"]}
BOTH = {**IMAGE, "videos": ["a.mp4"]}


def numbered(*kinds):
    return [{**row, "number": at} for at, row in enumerate(kinds)]


def deal(flat, world, batch):
    """A loader that gives row i to rank i % world: rank → its micro-batches."""
    mine = [flat[rank::world] for rank in range(world)]
    return [[own[at : at + batch] for at in range(0, len(own), batch)] for own in mine]


@pytest.mark.parametrize("batch", [1, 2])
def test_dealt_rows_reach_the_cells_they_were_arranged_for(batch):
    sample = training_rows.of(numbered(IMAGE, TEXT, IMAGE, TEXT, IMAGE, IMAGE))
    windows = training_rows.orders(sample, 2, True, False)
    cells = training_rows.arranged(sample, windows, 2, batch, 1)
    ranks = deal(training_rows.dealt(cells), 2, batch)
    assert [list(pair) for pair in zip(*ranks, strict=True)] == cells


def test_one_rank_gets_the_same_micro_batches_one_after_the_other():
    sample = training_rows.of(numbered(IMAGE, TEXT, IMAGE, TEXT))
    cells = training_rows.arranged(sample, training_rows.orders(sample, 2, False, False), 2, 2, 2)
    alone = deal(training_rows.alone(cells), 1, 2)[0]
    assert alone == [batch for cell in cells for batch in cell]


def test_the_loaders_order_comes_first_and_is_kept():
    sample = training_rows.of(numbered(IMAGE, TEXT, IMAGE, TEXT))
    cells = training_rows.arranged(sample, training_rows.orders(sample, 2, False, False), 2, 1, 1)
    assert [row["number"] for row in training_rows.dealt(cells)[:4]] == [0, 1, 2, 3]


def test_forced_orders_are_what_they_say():
    sample = training_rows.of(numbered(TEXT, IMAGE, BOTH))
    windows = training_rows.orders(sample, 2, True, False)
    cells = training_rows.arranged(sample, windows, 2, 1, 1)

    def kinds(order):
        window = next(w for w in windows if w.order == order)
        return [[training_rows.kind(batch[0]) for batch in cells[step - 1]]
                for step in range(window.first, window.last + 1)]  # fmt: skip

    assert kinds(training_rows.DIFFER) == [["image+video", "text"]] * 2
    assert kinds(training_rows.SWAPPED) == [["text", "image+video"]] * 2
    assert kinds(training_rows.ALL) == [["image+video"] * 2] * 2
    assert kinds(training_rows.NONE) == [["text"] * 2] * 2
    assert kinds(training_rows.ALONE) == [["image+video"] * 2, ["text"] * 2]


def test_one_kind_of_row_or_generated_batches_have_no_forced_order():
    alike = training_rows.of([IMAGE])
    assert [w.order for w in training_rows.orders(alike, 2, True, False)] == [training_rows.LOADER]
    mixed = training_rows.of([IMAGE, TEXT])
    assert [w.order for w in training_rows.orders(mixed, 2, True, True)] == [training_rows.LOADER]


def test_windows_follow_each_other():
    windows = training_rows.orders(training_rows.of([IMAGE, TEXT]), 2, True, False)
    assert [w.first for w in windows][1:] == [w.last + 1 for w in windows][:-1]


def test_shares_and_samples(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [IMAGE, TEXT, TEXT, TEXT] * 300))
    found = training_rows.sample([str(file)], shuffled=True)
    assert len(found.rows) == training_rows.MOST
    assert 0.65 < found.share < 0.85
    first = training_rows.sample([str(file)], shuffled=False)
    assert [training_rows.kind(row) for row in first.rows[:4]] == ["image", "text", "text", "text"]


@pytest.mark.parametrize("odd", [
    {"messages": [], "images": None}, {**TEXT, "weight": 3}, {**TEXT, "images": "a.png"},
])  # fmt: skip
@pytest.mark.parametrize("count", [12, 100, 500])
@pytest.mark.parametrize("shuffled", [False, True])
def test_an_odd_row_of_a_small_file_comes_first(tmp_path, odd, count, shuffled):
    file = tmp_path / "a.jsonl"
    every = [{**TEXT, "number": n} for n in range(count)]
    every[count * 2 // 3] = odd
    file.write_text("".join(json.dumps(row) + "\n" for row in every))
    found = training_rows.sample([str(file)], shuffled=shuffled)
    assert found.rows[0] == odd
    assert (len(found.rows), found.count) == (count, count)


def test_a_large_file_is_not_read_whole(tmp_path, monkeypatch):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({**TEXT, "number": n}) + "\n" for n in range(5000)))
    monkeypatch.setattr(training_rows, "WHOLE", 1000)
    monkeypatch.setattr(training_rows.Path, "read_text", None)
    drawn = [row["number"] for row in training_rows.sample([str(file)], shuffled=True).rows]
    assert len(drawn) > 400
    assert min(drawn) < 500
    assert max(drawn) > 4500
    ordered = training_rows.sample([str(file)], shuffled=False).rows
    assert [row["number"] for row in ordered] == list(range(training_rows.MOST))


@pytest.mark.parametrize("text", ["{", "", '["a"'])
def test_a_damaged_file_is_named(tmp_path, text):
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    with pytest.raises(Unreadable, match=r"bad\.jsonl"):
        training_rows.sample([str(file)], shuffled=True)


def test_stand_ins_of_each_kind(tmp_path):
    made = stand_in_rows.stand_ins(tmp_path, ("image",), "pair")
    assert set(training_rows.of(made).by_kind) == {"image", "text"}
    assert all("rejected_response" in row for row in made)
    assert set(training_rows.of(stand_in_rows.stand_ins(tmp_path, (), "chat")).by_kind) == {"text"}
    assert all(row["messages"][-1]["role"] == "user"
               for row in stand_in_rows.stand_ins(tmp_path, (), "prompt"))  # fmt: skip


def test_pictures_that_are_not_here_are_replaced_and_counted(tmp_path):
    found = [{"images": ["there.png", "gone.png"]}, {"image": {"path": "gone.png"}}, dict(TEXT)]
    assert stand_in_rows.here(found, tmp_path, lambda name: name == "there.png") == 2
    assert found[0]["images"][0] == "there.png"
    with open(found[1]["image"], "rb") as picture:
        assert picture.read(4) == b"\x89PNG"


def test_pictures_in_messages_are_replaced_too(tmp_path):
    """Else a machine without them would say that the command crashes."""
    parts = [{"type": "image", "image": "gone.png"}, {"type": "text", "text": "<img>"},
             {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]  # fmt: skip
    row = {"messages": [{"role": "user", "content": parts},
                        {"role": "user", "content": "see <img>gone.png</img> and <img>"}],
           "videos": [["gone.png", "there.png"], "film.mp4"]}  # fmt: skip
    assert stand_in_rows.here([row], tmp_path, lambda name: name == "there.png") == 4
    (image, text, linked), said = (each["content"] for each in row["messages"])
    for picture in (image["image"], linked["image_url"]["url"]):
        assert picture.startswith(str(tmp_path))
    assert text == {"type": "text", "text": "<img>"}
    assert said.startswith(f"see <img>{tmp_path}")
    assert said.endswith("</img> and <img>")
    (first, second), film = row["videos"]
    assert (second, film) == ("there.png", "film.mp4")
    assert first.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("row", "whole"),
    [
        ({"videos": ["gone.mp4"]}, False),
        ({"audios": [{"path": "gone.wav", "bytes": b"x"}]}, True),
        ({"audio": {"path": "gone.wav"}}, False),
        ({"videos": [["there.mp4"]], "images": ["gone.png"]}, True),
        ({"messages": [{"content": [{"type": "video", "video": "gone.mp4"}]}]}, False),
        ({"messages": [{"content": "<video>gone.mp4</video>"}]}, False),
        ({"messages": [{"content": "<video>"}], "videos": []}, True),
    ],
)
def test_nothing_stands_in_for_a_video(row, whole):
    assert bool(stand_in_rows.whole([row], lambda name: name == "there.mp4")) is whole


def test_a_loader_may_give_a_rank_rows_that_follow_each_other():
    sample = training_rows.of(numbered(IMAGE, IMAGE, TEXT, TEXT))
    [window, *_] = training_rows.orders(sample, 2, False, False)
    cells = training_rows.arranged(sample, [window], 2, 2, 1, blocks=True)
    assert [[row["number"] for row in own] for own in cells[0]] == [[0, 1], [2, 3]]
    numbers = [row["number"] for row in training_rows.alone(cells)]
    assert numbers[:4] == [0, 1, 2, 3], "as in the file"


@pytest.mark.parametrize("blocks", [False, True])
def test_two_ranks_get_what_two_of_more_would(blocks):
    phases = training_rows.of(numbered(*[IMAGE] * 3, *[TEXT] * 3, *[IMAGE] * 2, TEXT, *[TEXT] * 3))
    [window, *_] = training_rows.orders(phases, 2, False, False)
    steps = [training_rows.Window(window.order, 4, 1)]
    cells = training_rows.arranged(phases, steps, 2, 1, 1, blocks, size=3)
    assert [[row["number"] for [row] in cell] for cell in cells] == [[0, 1], [3, 4], [6, 8],
                                                                     [9, 10]]  # fmt: skip


def test_rows_to_evaluate_on_are_unlike_where_there_are_both():
    sample = training_rows.of(numbered(TEXT, IMAGE, IMAGE))
    kinds = [kind(row) for row in training_rows.unlike(sample, 2)]
    assert kinds == ["image", "text"] * 2
    sample = training_rows.of(numbered(TEXT, TEXT))
    assert [row["number"] for row in training_rows.unlike(sample, 2)] == [0, 1, 0, 1]


def test_what_a_row_draws_depends_on_its_place_alone():
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    from vlmguard_transformers.rehearsal import chosen_rows

    class Drawn(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, at):
            return random.random(), numpy.random.rand(), float(torch.rand(1))

    rows = chosen_rows.chosen(Drawn(), [3, 1])
    random.seed(5), numpy.random.seed(5), torch.manual_seed(5)
    plain = Drawn()[0]
    random.seed(5), numpy.random.seed(5), torch.manual_seed(5)
    first = rows[0]
    assert Drawn()[0] == plain
    assert first == rows[0] != rows[1]
