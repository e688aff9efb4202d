"""One rank with the command's own optimizer and dtype: what it changes of the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from vlmguard.rehearse import alone, run, show
from vlmguard.rehearse.request import Request


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    data = tmp_path / "rows.jsonl"
    data.write_text('{"messages": []}\n' * 3)
    (tmp_path / "scratch").mkdir()

    def asked(*flags: str, **changed):
        given = {
            "adapter": "fake", "entry": "sft", "argv": flags, "folder": str(tmp_path),
            "strategy": "single", "world": 1, "model": str(tmp_path), "name": "m",
            "scratch": str(tmp_path / "scratch"), "data": (str(data),), "shuffled": False,
            **changed,
        }  # fmt: skip
        return run.rehearse(Request(**given), lambda event, told: None)

    yield asked
    sys.modules.pop("fake.rehearse", None)


def test_right_with_its_own_numbers(ask):
    answer = ask()
    assert (answer["verdict"], answer["alone"]["kind"]) == ("right", "right")
    assert answer["alone"]["how"] == "with its own optimizer and dtype"
    assert "with its own optimizer and dtype: right" in "\n".join(show._alone(answer["alone"]))


def test_a_crash_that_only_its_own_numbers_show(ask):
    answer = ask("--alone", "crash", "--alone_on", "right")
    assert (answer["verdict"], answer["exit"]) == ("crash", 1)
    assert answer["off"]["why"] == "with its own optimizer and dtype"
    assert answer["on"]["kind"] == "right"
    assert answer["mended"] == ["VG106"]


def test_what_the_guard_breaks_at_that_size_counts(ask):
    """Two ranks crash without the guard and are right with it: then its side is asked."""
    answer = ask("--off", "crash", "--alone", "crash")
    assert (answer["off"]["why"], answer["on"]["kind"]) == ("", "crash")
    assert answer["mended"] == []


@pytest.mark.parametrize("kind", ["raise:Torch not compiled with CUDA", "short"])
def test_what_could_not_be_looked_at_is_said_and_changes_nothing(ask, kind):
    answer = ask("--alone", kind)
    assert (answer["verdict"], answer["alone"]["kind"]) == ("right", "cannot tell")
    assert "could not be looked at" in "\n".join(show._alone(answer["alone"]))


def test_it_is_not_asked_where_two_ranks_say_enough(ask, tmp_path):
    answer = ask("--off", "wrong", "--on", "wrong")
    assert answer["alone"]["kind"] == "not asked"
    assert not list((tmp_path / "scratch").glob("with-its-own*"))


def test_not_asked_for(ask):
    assert ask(passes=("off",))["alone"] is None


@pytest.mark.parametrize(("world", "accumulation"), [(8, 4), (512, 2), (4096, 16)])
def test_every_rank_gets_the_same_rows_and_they_stay_few(ask, tmp_path, world, accumulation):
    given = {
        "adapter": "fake", "entry": "sft", "argv": (), "folder": "/", "strategy": "zero3",
        "world": world, "model": "/", "name": "m", "scratch": str(tmp_path), "batch": 1,
        "accumulation": accumulation,
    }  # fmt: skip
    cells = [[[{"id": 0}], [{"id": 9}]], [[{"id": 1}], [{"id": 9}]]]
    fake = __import__("fake.rehearse", fromlist=["x"])
    made = alone.own(fake, Request(**given), {}, cells)
    lines = [json.loads(line) for line in (tmp_path / "rows-own.jsonl").open()]
    assert made.request.accumulation == accumulation
    assert made.steps == (2 if accumulation <= alone.FEW else 1)
    assert len(lines) == min(world * accumulation * made.steps, alone.MOST_ROWS)
    first, second = lines[::world], lines[1::world]
    assert first == second == [{"id": n % 2} for n in range(len(first))]


def test_a_rank_of_a_loader_of_whole_batches_gets_the_same_rows_too(ask, tmp_path):
    request = Request("fake", "sft", (), "/", "zero3", 3, "/", "m", str(tmp_path), batch=2,
                      blocks=True)  # fmt: skip
    cells = [[[{"id": 0}, {"id": 1}], [{"id": 9}, {"id": 9}]]]
    alone.own(__import__("fake.rehearse", fromlist=["x"]), request, {}, cells)
    lines = [json.loads(line)["id"] for line in (tmp_path / "rows-own.jsonl").open()]
    assert lines == [0, 1] * 6, "two steps of three ranks, a batch of two each"


def test_what_the_command_sets_for_its_own_numbers_is_set(ask, tmp_path):
    ask()
    [scene] = (tmp_path / "scratch").glob("with-its-own*")
    assert (scene / "OWN").read_text() == "numbers"
