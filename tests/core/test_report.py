from __future__ import annotations

import json
import types
from dataclasses import replace

import pytest

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Batch, Run, Sample, run_as_json, run_from_json
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import faults, report, stop

FINDING = Finding("VG101", "error", "why", advice="do this")


def test_run_scope_prints_on_rank_0_only(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "r.jsonl"))
    monkeypatch.setenv("RANK", "1")
    report.say(FINDING)
    assert capsys.readouterr().err == ""
    report.say(Finding("VG204", "error", "text only", scope="rank"))
    assert "[rank 1]" in capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "r.rank1.jsonl").read_text().splitlines()]
    assert [line["code"] for line in lines] == ["VG101", "VG204"]


def test_a_report_that_cannot_be_written_is_said_once(monkeypatch, capsys):
    monkeypatch.setenv("VLMGUARD_REPORT", "/proc/no/such/place.jsonl")
    report.write("finding", {})
    report.write("finding", {})
    assert capsys.readouterr().err.count("cannot be written") == 1


class Gone:
    """A terminal that was closed."""

    def write(self, text):
        raise BrokenPipeError("gone")

    def flush(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [None, Gone()], ids=["none", "gone"])
def test_nothing_that_cannot_be_said_ends_anything(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    report.say(FINDING, "fixed", "a → b")

    def broken():
        raise KeyError("boom")

    def silent(text):
        raise OSError("no report either")

    assert faults.contain("a part of ours", broken, default=3) == 3
    monkeypatch.setattr(report, "say", silent)
    assert faults.contain("another part of ours", broken, default=4) == 4


@pytest.mark.parametrize("stream", [None, Gone()], ids=["none", "gone"])
def test_a_rank_that_has_to_leave_leaves_though_nobody_listens(monkeypatch, stream):
    codes = []
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr(stop.os, "_exit", codes.append)
    stop._leave()
    assert codes == [1]


def test_summary():
    state = RunState(Settings())
    runstate.opened(state)
    report.say(FINDING, "fixed", "a → b", state)
    report.say(Finding("VG203", "warning", "x"), "warned", state=state)
    assert report.summary(16, state) == "16 rules watched, 1 fixed (VG101), 1 warning"
    report.say(Finding("VG904", "note", "y"), state=state)
    assert report.summary(16, state).endswith("1 warning, 1 unjudged")
    state.run = Run("x", provenance={"repeats": "assumed", "per_image": "observed"})
    assert report.summary(16, state).endswith("1 warning, 2 unjudged (repeats)")
    state.set["VG106"] = FINDING
    assert "1 fixed (VG101), 1 set (VG106)" in report.summary(16, state)


def test_batch_errors_stop_under_their_policy(monkeypatch):
    batch = Batch((Sample(placeholders=3, expected=4, keys=("pixel_values",)),), ("image",))
    with pytest.raises(Stop, match=r"VG202.*3 image tokens"):
        guard.pre_step(Run("x"), batch=batch)
    monkeypatch.setenv("VLMGUARD_RULES", "VG202=warn")
    guard.settings._load.cache_clear()
    guard.pre_step(Run("x"), batch=batch)


def test_a_stop_survives_a_workers_reraise():
    from torch._utils import ExceptionWrapper

    try:
        raise Stop("VG202: why")
    except Stop:
        wrapper = ExceptionWrapper(where="in DataLoader worker process 0")
    with pytest.raises(Stop, match="VG202: why"):
        wrapper.reraise()


def test_a_run_travels_as_json():
    run = Run("x", {"torch": "2"}, "zero3", 2, may_be_unused="yes", freeze=("vision",))
    assert run_from_json(run_as_json(run)) == run


def test_torchrun_is_told_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    monkeypatch.setattr(stop.threading, "Timer", lambda *args: types.SimpleNamespace(start=int))
    advice = "do this, or that, or what stands in the docs of the framework"
    long = replace(FINDING, why="why " * 90, advice=advice)
    with pytest.raises(Stop) as raised:
        guard.stop([long])
    assert "do this, or" not in str(raised.value)
    told = json.loads((tmp_path / "error.json").read_text())["message"]
    assert "VG101: why" in told["message"]
    assert "do this, or" in told["message"], "the terminal's text is cut, torchrun's is not"
    assert "VG101: why" in told["extraInfo"]["py_callstack"]
