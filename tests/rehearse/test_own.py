"""One rank with the command's own optimizer and dtype: what it changes of the verdict."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("numpy")

from vlmguard.ranks import Outcome, Result
from vlmguard.ranks.collective_calls import Call
from vlmguard.rehearse import alone, run, show
from vlmguard.rehearse.framework import Commands
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


def test_what_fails_before_the_first_step_comes_first(ask):
    answer = ask("--off", "wrong", "--alone", "refuses:values that mismatch")
    off = answer["off"]
    assert (answer["verdict"], answer["exit"], off["step"]) == ("crash", 1, 0)
    assert (off["error"], off["message"]) == ("ValueError", "values that mismatch")
    assert off["why"].endswith("behind it: silently wrong at step 2")
    assert (answer["on"]["kind"], answer["mended"]) == ("crash", [])


def test_what_fails_before_any_step_needs_no_numbers(ask):
    """Two ranks trained, and what they learned could not be judged."""
    words = ("--off", "short", "--alone", "refuses:values that mismatch")
    answer = ask(*words, passes=("off", "alone"))
    assert (answer["verdict"], answer["off"]["error"]) == ("crash", "ValueError")


@pytest.mark.parametrize("kind", ["right", "crash"])
def test_a_failure_at_a_step_stays_what_it_was(ask, kind):
    answer = ask("--off", "wrong", "--on", "wrong", "--alone", kind)
    assert (answer["verdict"], answer["alone"]["kind"]) == ("silently wrong", "not asked")


@pytest.mark.parametrize(("count", "code"), [(4, 0), (10, 3)])
def test_rows_that_met_no_reward_limit_the_answer(ask, tmp_path, count, code):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"messages": [], "images": ["a.png"]}\n' * count)
    answer = ask(row="prompt", data=(str(file),))
    assert (answer["verdict"], answer["exit"]) == ("right", code), answer
    told = ["rewards: 4 of 10 rows met theirs here"] if code else []
    assert answer["left_out"] == told


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


def test_why_one_rank_cannot_be_looked_at_is_said(ask, monkeypatch):
    fake = __import__("fake.rehearse", fromlist=["x"])
    monkeypatch.setattr(fake, "own", lambda *_: "its scores would take 9 GB")
    answer = ask()
    assert (answer["verdict"], answer["alone"]["kind"]) == ("right", "cannot tell")
    assert "could not be looked at: its scores would take 9 GB" in _text(answer)


def _text(answer):
    return "\n".join(show._alone(answer["alone"]))


def test_what_one_rank_cannot_show_is_said_beside_its_verdict(ask, monkeypatch):
    fake = __import__("fake.rehearse", fromlist=["x"])
    own = Commands(("--steps", "2"), (), unseen=("negatives of other ranks",))
    monkeypatch.setattr(fake, "own", lambda *_: own)
    assert "not seen: negatives of other ranks" in _text(ask())


def test_rows_with_labels_and_generated_ones_are_not_compared_and_it_is_said():
    def of(**changed):
        request = Request("fake", "x", (), "/", "zero3", 8, "/", "m", "/", **changed)
        return alone.Own(request, Commands((), ()), 2)

    assert of(row="prompt").unseen == of(generates=True).unseen == (alone.GENERATED,)
    assert of().unseen == ()
    assert alone.own(SimpleNamespace(own=None), of(row="label").request, {}, []).why == alone.LABELS


REDUCED = Call("allreduce", "allreduce SUM float32[5]", 5, 0, "backward", "torch/ddp.py:1 in f")
LOG = "transformers/trainer.py:9 in log"
ELSEWHERE = Call("allgather", "allgather float32[1]", 1, 0, "step", LOG)
DDP = "DistributedDataParallel"


class Heard:
    """Stands for the passes: each rank alone ends as it was told."""

    def __init__(self, *ranks):
        self.ranks = list(ranks)
        self.seconds = {}

    def tell(self, event, told):
        pass

    def as_rank(self, environment, own, guard):
        calls, steps, wrapped = self.ranks[environment.rank]
        told = {"steps": steps, "wrapped": wrapped, "trainable": 5}
        return Result("ok", [Outcome(environment.rank, "returned", told)], [calls]), None


def looked(*ranks, **changed):
    request = Request("fake", "x", (), "/", "ddp", 8, "/", "m", "/", **changed)
    return alone.look(Heard(*ranks), alone.Own(request, Commands((), ()), 2), guard=False)


FINE = ([REDUCED] * 2, 2, DDP)


def test_ranks_of_the_real_size_that_ask_for_the_same_are_right():
    assert looked(FINE, FINE).kind == "right"


@pytest.mark.parametrize(("other", "told"), [
    (([REDUCED] * 2, 1, DDP), "only 1 of 2 steps ran"),
    (([], 2, DDP), "this was not distributed"),
    (([REDUCED] * 2, 2, "none"), "wrapped by none, not by ddp"),
])  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_alone_is_no_right_either_without_its_safeguards(other, told, first):
    found = looked(other, FINE) if first else looked(FINE, other)
    assert found.kind == "cannot tell"
    assert told in found.why


@pytest.mark.parametrize("calls", [[REDUCED, ELSEWHERE], [REDUCED, REDUCED, ELSEWHERE], [REDUCED]])
def test_ranks_of_the_real_size_that_part_hang(calls):
    """Also where one has asked for more when the other is done: both are at their ends."""
    found = looked(FINE, (calls, 2, DDP))
    assert found.kind == "hang"
    assert {rank for rank, *_ in found.sites} == {0, 1}
    assert len({site for *_, site in found.sites}) == 2
    assert looked((calls, 2, DDP), FINE).kind == "hang"
    generated = looked(FINE, (calls, 2, DDP), row="prompt")
    assert generated.kind == "right", "what ranks generate differs by right"


def test_a_group_of_one_ranks_own_says_nothing():
    other = replace(ELSEWHERE, group=7)
    assert looked(([*FINE[0], other], 2, DDP), FINE).kind == "right"


def test_a_crash_before_the_first_step_counts_where_two_ranks_had_trained_on_these_rows(ask):
    given = {"data": (), "why_no_data": "x/y is not on this disk"}
    answer = ask("--alone", "refuses:64 is not divisible by 3", **given)
    assert (answer["verdict"], answer["off"]["why"]) == (
        "crash", "with its own optimizer and dtype")  # fmt: skip
    assert "not divisible by 3" in answer["off"]["message"]
