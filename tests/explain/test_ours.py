"""What the guard wrote in a run is a source of facts, and its findings are those of the log."""

# ruff: noqa: E501
from __future__ import annotations

import json

import pytest

from tests.explain import compose
from tests.explain.schema import load
from vlmguard.core.findings import Finding
from vlmguard_explain.command import explain, main

OOM = next(k for k in load() if k.code == "VG512").examples[0]["text"]
HEADER = {"vlmguard": "0.1.0", "framework": "ms-swift", "releases": {"torch": "2.13.0", "ms-swift": "4.6.0"},
          "strategy": "zero3", "world": 4, "phase": "train", "settings": {}, "plan": []}
FIXED = Finding("VG105", "error", "recomputation meets partitioned weights", advice="--gradient_checkpointing_kwargs …")


def report(folder, rank=0, *entries):
    """A report as `runtime.report.write` writes it."""
    lines = [{"time": 1780000000.123, "kind": kind, "rank": rank, "worker": None, "run": 1, **data} for kind, data in entries]
    (folder / f"guard.rank{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.log").write_text(compose.traced(OOM, 1))
    report(tmp_path, 0, ("header", HEADER), ("finding", {**FIXED.as_dict(), "outcome": "fixed", "change": "use_reentrant: False → True"}))
    return tmp_path


def test_facts_come_from_the_report(run):
    answer, digests = explain([str(run)])
    facts = answer.facts
    assert (facts.framework, facts.strategy, facts.world) == ("ms-swift", "zero3", 4)
    assert facts.releases["ms-swift"] == "4.6.0"
    assert len(digests) == 1  # the report is no log
    assert (answer.known.code, answer.ranks) == ("VG512", (1,))


def test_findings_are_the_same_objects(run, capfd):
    main([str(run), "--format", "json"])
    data = json.loads(capfd.readouterr().out)
    (told,) = data["guard"]
    whole = FIXED.as_dict()
    keys = ("code", "level", "why", "scope", "advice", "evidence", "url")
    assert {key: told[key] for key in keys} == {key: whole[key] for key in keys}
    assert told["outcome"] == "fixed"
    assert set(whole) <= set(data["finding"])
    main([str(run)])
    assert "vlmguard in this run: VG105 fixed [rank 0]: recomputation meets partitioned weights" in capfd.readouterr().out


def test_the_guards_lines_in_a_log(tmp_path):
    (log := tmp_path / "train.log").write_text("vlmguard: VG204 warned [rank 3]: 4 of 80 tensors of the tower got no gradient\n" + compose.healthy(3))
    answer, _ = explain([str(log)])
    (said,) = answer.guard
    assert (answer.verdict, said["code"], said["outcome"], said["rank"]) == ("finished", "VG204", "warned", 3)


@pytest.mark.parametrize("outcome", ["fixed", "set", "unjudged", "note"])
def test_a_line_of_every_outcome_is_read(tmp_path, outcome):
    (log := tmp_path / "train.log").write_text(f"vlmguard: VG904 {outcome} [rank 1]: why\n" + compose.healthy(3))
    (said,) = explain([str(log)])[0].guard
    assert (said["code"], said["outcome"], said["rank"]) == ("VG904", outcome, 1)


@pytest.mark.parametrize(("outcome", "code"), [("stopped", "VG571"), ("explained", "VG501")])
def test_a_report_alone(tmp_path, outcome, code):
    known = Finding("VG501" if outcome == "explained" else "VG105", "error", "why")
    report(tmp_path, 2, ("header", HEADER), ("finding", {**known.as_dict(), "outcome": outcome, "change": ""}))
    answer, _ = explain([str(tmp_path)])
    assert (answer.known.code, answer.ranks) == (code, (2,))


@pytest.mark.parametrize("spoilt", [b"[" * 100000, b'{"time": 1780000000.0, "kind": "header", "rank": 0, ' + b"9" * 200000, b"\xff\xfe\n" * 50])
def test_a_spoilt_report(run, spoilt):
    """Nested without end, a line of 200 KB, no text: passed over."""
    with (run / "guard.rank0.jsonl").open("ab") as file:
        file.write(spoilt)
    assert explain([str(run)])[0].facts.framework == "ms-swift"


def test_other_json_is_no_report(tmp_path):
    (tmp_path / "train.log").write_text(compose.traced(OOM, 0))
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": [{"loss": 1.0}]}))
    answer, digests = explain([str(tmp_path)])
    assert (len(digests), answer.guard) == (1, [])
