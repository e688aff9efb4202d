"""The plug-in, the comparison and the page of the frameworks' own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tools.pages import suites_page
from tools.suites import compare

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS = """
import os, sys, time
import pytest

def test_right():
    pass

def test_wrong():
    raise KeyError("x at 0x7f00")

@pytest.mark.skip(reason="no")
def test_skipped():
    pass

def test_long():
    time.sleep(9)

def test_meets():
    from vlmguard.core import runstate, settings
    from vlmguard.runtime import stderr, stub
    from vlmguard.runtime.seams import Seam

    hook = stub.Hook(Seam("s", ("m:f",), lambda wrapped, *rest: wrapped(), "w"))
    assert hook.call(lambda: 3, None, (), {}) == 3
    runstate.opened(runstate.RunState(settings.Settings()))
    stderr.say("VG000 stopped: said")

def test_dies():
    os._exit(3)
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_some.py").write_text(TESTS)
    out = folder / "out.jsonl"
    parts = ("tools/suites/plugin", "", "plugins")
    around = {
        **os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in parts),
        "SUITES_OUT": str(out), "SUITES_LIMIT": "0.2", "VLMGUARD": "",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-p", "vlmguard_suites", "test_some.py"]
    subprocess.run(command, cwd=folder, env=around, capture_output=True, check=False)
    return out


def named(out, name):
    return compare.ends(out)[f"test_some.py::test_{name}"]


def test_each_test_leaves_its_outcome(ends):
    found = {name: compare.outcome(named(ends, name)) for name in ("right", "wrong", "long")}
    assert found == {"right": "passed", "wrong": "failed KeyError", "long": "timeout Timeout"}
    assert named(ends, "skipped")["outcome"] == "skipped"
    assert "0x" not in named(ends, "wrong")["why"]


def test_what_met_the_guard_is_counted(ends):
    assert named(ends, "right")["met"]["calls"] == 0
    met = named(ends, "meets")["met"]
    assert (met["calls"], met["runs"], met["said"]) == (1, 1, ["VG000 stopped: said"])


def test_weights_are_summed_up_after_each_step(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "suites" / "plugin")
    import vlmguard_suites

    def trained(by):
        parameter = torch.nn.Parameter(torch.ones(3).bfloat16())
        weights = vlmguard_suites.Weights()
        for _ in range(2):
            parameter.data.add_(by)
            weights.stepped(SimpleNamespace(param_groups=[{"params": [parameter]}]))
        return vars(weights)

    same, other = trained(1), trained(2)
    assert same == trained(1)
    assert (same["steps"], other["steps"]) == (2, 2)
    assert same["sum"] != other["sum"]
    line = {"outcome": "passed", **same}
    assert compare.outcome(line) == f"passed after 2 steps: {same['sum']:08x}"


def test_a_test_that_ends_the_process_is_known(ends):
    assert compare.unfinished(ends) == "test_some.py::test_dies"


def _side(folder, side, **outcomes):
    file = folder / "s" / f"f.{side}.jsonl"
    file.parent.mkdir(exist_ok=True)
    lines = [{"test": name, "outcome": out, "why": why} for name, (out, why) in outcomes.items()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_other_outcomes_and_other_exceptions_differ(tmp_path):
    fine, wrong = ("passed", ""), ("failed", "ValueError: a")
    off = _side(tmp_path, "off", a=fine, b=wrong, c=fine, d=wrong, e=fine)
    on = _side(tmp_path, "on", a=fine, b=("failed", "Stop: a"), c=wrong, d=wrong, e=wrong)
    assert compare.differing(off, on) == ["b", "c", "e"]
    again = [
        {"test": "c", "off": ["passed"] * 3, "on": ["failed ValueError"] * 3},
        {"test": "e", "off": ["passed", "failed ValueError", "passed"], "on": ["passed"] * 3},
    ]
    off.with_name("f.again.jsonl").write_text("".join(json.dumps(line) + "\n" for line in again))
    verdicts = {line["test"]: line["verdict"] for line in compare.records(tmp_path, "s")}
    assert verdicts == {"a": "alike", "b": "differs", "c": "differs", "d": "alike", "e": "flaky"}


STEPPED = "passed after 1 steps:"


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        ({"off": [f"{STEPPED} a"] * 3, "on": [f"{STEPPED} b"] * 3}, "differs"),
        ({"off": [f"{STEPPED} c"], "on": []}, "flaky"),
        ({"off": [f"{STEPPED} c"], "on": ["failed Stop"] * 3}, "differs"),
    ],
)
def test_weights_count_where_they_do_not_vary_by_themselves(again, verdict):
    stopped = again["on"][:1] == ["failed Stop"]
    sides = {"off": f"{STEPPED} a", "on": f"{STEPPED} b"}
    sides["on"] = "failed Stop" if stopped else sides["on"]
    assert compare._verdict(sides, again) == verdict


def test_the_page_counts_what_ran_and_names_what_differs():
    met = {"calls": 1, "runs": 1, "towers": 0}
    plain = {"suite": "trl", "ran": True, "met": met, "off": "passed", "on": "passed"}
    tests = [
        {**plain, "test": "f::a", "verdict": "alike"},
        {**plain, "test": "f::b", "verdict": "differs", "on": "failed", "why": ["", "Stop: x"]},
    ]
    assert suites_page.counts(tests) == (2, 2, 2, 0, 1, 0)
    table = "\n".join(suites_page._differing(tests))
    assert "| TRL `b` | passed | Stop: x | differs |" in table
