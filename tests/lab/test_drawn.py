"""The real lab in the newest release set's environment, made by the program itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit import seeds
from tools.lab import cases, envs, records, runner
from tools.lab.cases import Case

pytestmark = pytest.mark.frameworks
ENV = "newest"
NUMBER = 10


@pytest.fixture(scope="module")
def newest() -> envs.ReleaseSet:
    of = envs.sets()[ENV]
    envs.make(of)
    return of


def told(fields: dict[str, object]) -> tuple[object, object]:
    return fields["verdict"], fields.get("kind", fields.get("class"))


def test_drawn_cases_are_as_recorded(newest):
    """10 cases; the sources decide which. VLMGUARD_DRAW=SEED draws those of a seed."""
    seed = seeds.seed("VLMGUARD_DRAW")
    print(f"VLMGUARD_DRAW={seed}")
    committed = records.load(ENV)
    drawn = cases.draw(committed, NUMBER, seed)
    found: dict[Case, dict[str, object]] = {}
    faults = runner.measure(newest, drawn, 0, "gloo", 2, found.__setitem__)
    assert not faults
    differing = {
        case.key: (told(committed[case]), told(found[case]))
        for case in drawn
        if told(committed[case]) != told(found[case])
    }
    assert not differing, f"VLMGUARD_DRAW={seed}"


def test_both_engines_say_the_same(newest):
    drawn = [
        Case("ddp", "none", "full", "two_tower", "images", 1),
        Case("ddp", "non_reentrant", "full", "two_tower", "text", 1),
        Case("ddp_find_unused", "reentrant", "full", "two_tower", "images", 1),
        Case("zero2", "reentrant", "full", "per_image", "images", 1),
        Case("zero2", "none", "full", "two_tower", "differ", 1),
        Case("zero3", "non_reentrant", "lora", "two_tower", "images", 1),
        Case("zero3", "reentrant", "full", "two_forwards", "images", 1),
        Case("fsdp2", "reentrant", "full", "two_forwards", "images", 1),
    ]
    found: dict[str, dict[Case, dict[str, object]]] = {"gloo": {}, "referee": {}}
    for engine, verdicts in found.items():
        assert not runner.measure(newest, drawn, 0, engine, 2, verdicts.__setitem__)
    gloo, referee = ({c: told(v) for c, v in found[e].items()} for e in ("gloo", "referee"))
    assert gloo == referee
    expected = ["ok", "crash", "crash", "crash", "mismatch", "ok", "wrong", "wrong"]
    assert [gloo[case][0] for case in drawn] == expected


def test_an_interrupted_run_loses_only_the_running_case(newest, tmp_path):
    command = [sys.executable, "-m", "tools.lab", "run", "--env", ENV]
    command += ["--only", "strategy=ddp", "--only", "model=two_tower", "--only", "tuning=full"]
    command += ["--only", "accumulation=1", "--jobs", "1"]
    variables = {**os.environ, "VLMGUARD_RECORDS": str(tmp_path)}
    fresh = tmp_path / f"{ENV}.jsonl"
    first = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while _lines(fresh) < 5 and time.monotonic() < until:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(1)  # its worker sees the closed pipe
    kept = fresh.read_bytes()
    assert 5 <= _lines(fresh) < 15
    subprocess.run(command, env=variables, check=True, stderr=subprocess.DEVNULL, timeout=300)
    assert not fresh.exists()
    again = records.load(ENV, tmp_path)
    assert len(again) == 15
    for record in records.parse(kept.decode()):
        assert again[records.case_of(record)] == record


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0
