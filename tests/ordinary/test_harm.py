"""What the campaign of ordinary runs compares, on made-up accounts: each harm is seen."""

from __future__ import annotations

import copy
import json

import pytest

from tools.ordinary import draws, judge, turns

DRAW = draws.draw(1, 1, 1)
ACCOUNT = {"weights": {"a": "1", "b": "2"}, "log": [{"loss": "0.5"}], "hooks": {"model": {}},
           "alive": [], "open": {"file": 3}}  # fmt: skip


def ended(verdict="ok", output="a step\n", error="", **account):
    rank = {"account": {**copy.deepcopy(ACCOUNT), **account}, "error": error, "output": output}
    return {"verdict": verdict, "ranks": [rank]}


def test_a_run_as_without_is_unharmed(tmp_path):
    assert judge.harm(DRAW, ended(), ended(output="vlmguard: 0.1 guards trl\na step\n"),
                      tmp_path) == []  # fmt: skip


@pytest.mark.parametrize(
    ("on", "word"),
    [
        (ended(weights={"a": "1", "b": "3"}), "changed: weights"),
        (ended(log=[{"loss": "0.6"}]), "changed: log"),
        (ended(hooks={"model": {"_forward_hooks": 1}}), "left: hooks"),
        (ended(alive=["model"]), "left: alive"),
        (ended(open={"file": 3, "to the store": 1}), "left: open"),
        (ended(output="[W socket.cpp] waiting\na step\n"), "spoken: [W socket.cpp]"),
        (ended("crash", error="Stop: no gradient"), "stopped: Stop: no gradient"),
        (ended("hang"), "hang: "),
    ],
)
def test_each_harm_is_seen(tmp_path, on, word):
    assert judge.harm(DRAW, ended(), on, tmp_path)[0].startswith(word)


def test_a_finding_that_nobody_gave_a_reason_for_is_untrue(tmp_path):
    told = {"kind": "finding", "time": 1, "code": "VG302", "outcome": "", "level": "note",
            "why": "no gradient"}  # fmt: skip
    (tmp_path / "findings.rank0.jsonl").write_text(json.dumps(told))
    assert judge.harm(DRAW, ended(), ended(), tmp_path) == ["spoken: VG302 note: no gradient"]


def test_a_run_whose_weights_are_no_numbers_is_not_healthy():
    assert judge.unhealthy(ended()) == ""
    assert judge.unhealthy(ended(weights={"a": "1 not finite"})) == "not finite: a"
    assert judge.unhealthy(ended("crash", error="ValueError: x")).startswith("crash: ValueError")


def test_three_numbers_draw_the_same_run_again():
    drawn = [draws.draw(7, 2, number) for number in range(40)]
    assert drawn == [draws.read(json.loads(json.dumps(draw.data()))) for draw in drawn]
    assert drawn == [draws.draw(7, 2, number) for number in range(40)]
    assert len({draw.program for draw in drawn}) > 5
    assert not [draw for draw in drawn if any(rule(draw) for _, rule in draws.CONTRADICTIONS)]


def test_the_cost_is_judged_by_turns_that_follow_each_other():
    slow = [1.0] * 100 + [3.0] * 100  # the machine becomes busy in the middle
    assert turns.ratio(slow, [1.01 * step for step in slow]) == pytest.approx(1.01)
