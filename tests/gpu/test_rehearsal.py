"""`make gpu`'s script on CPU, with tiny sizes: what would be measured is reached, and told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs, runs
from tools.pages import measured

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    out = tmp_path_factory.mktemp("gpu") / "gpu.json"
    path = os.pathsep.join(map(str, (runs.KIT / "standins", ROOT, ROOT / "plugins")))
    given = {**runs.variables("trl", out.parent, guard=True), "PYTHONPATH": path}
    for name in ("VLMGUARD_TEST_CAPTURE", "VLMGUARD_REPORT"):
        given.pop(name)
    script = str(ROOT / "tools" / "gpu" / "run.py")
    command = [envs.program("trl"), script, "--cpu", "--out", str(out)]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize(
    ("case", "broken"),
    [("lora", "ready only once"), ("two_forwards", "ready only once"), ("mixed", "")],
)
def test_broken_without_the_guard_and_trained_with_it(rehearsed, case, broken):
    found = rehearsed["ranks"][case]
    assert found["off"]["end"] != "trained"  # mixed: a hang, or what the first collective says
    assert broken in found["off"]["end"]
    assert found["on"]["end"] == "trained", found["on"]["tail"]
    assert len(found["on"]["sums"]) == 1, "the ranks differ"


def test_the_other_parts_were_reached(rehearsed):
    steps = rehearsed["step"]["steps"]
    assert {bool(step[0]) for step in steps} == {True, False}
    inside = rehearsed["step"]["inside_warming"]
    assert any(inside), "our own functions were not reached"  # later they may rest
    assert not any(step[4] for step in steps if not step[0]), "the guard was not off"
    assert rehearsed["sync"]["ours_under_error"] == "passed"
    assert set(rehearsed["costs"]) >= {"checkpointing", "find_unused", "blank"}
    assert rehearsed["gemini"] == "not brought along"


def test_the_page_can_be_made_of_it_and_a_rehearsal_is_no_result(rehearsed):
    assert "Nothing was measured on a GPU yet" in measured.gpu(rehearsed)
    text = measured.gpu({**rehearsed, "rehearsal": False})
    assert "| blank: text_with_blank |" in text
    assert "Not measured" not in text
