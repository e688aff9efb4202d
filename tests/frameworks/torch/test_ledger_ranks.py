"""The ledger in plain loops, in real ranks: what is told, and which healthy strategies are not."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs, runs
from tests.kit.turns import turn

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
KIT = Path(envs.__file__).parent

HEALTHY = (
    *("ddp/none", "ddp/frozen", "ddp/lr 0", "fsdp2/none"),
    *("zero1/none", "zero2/none", "zero3/none", "zero2bf16/none", "zero3bf16/none", "zero3/lr 0"),
)
TOLD = {
    "ddp/drift": ("VG660", 2),
    "ddp/past the wrapper": ("VG660", 1),
    "fsdp2/early": ("VG650", 2),
}
STATIONS = ("update", "ranks")


@functools.cache
def measured() -> dict[str, dict]:
    """Every cell's line, from one process that imports once."""
    lines = [json.loads(line) for line in runs.told("ledger-ranks", measure).splitlines()]
    return {line["cell"]: line for line in lines}


def measure() -> str:
    sources = (KIT / "standins", envs.ROOT, envs.ROOT / "plugins")
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    with turn():
        done = subprocess.run(
            [envs.program("trl"), str(HERE / "ledger_ranks.py"), *HEALTHY, *TOLD],
            env=variables, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cell"')]
    assert len(lines) == len(HEALTHY) + len(TOLD), done.stdout[-2000:] + done.stderr[-4000:]
    return "\n".join(lines)


def found(cell):
    """(step, station, state, codes) of the rank that judges; the other one says nothing."""
    told = measured()[cell]
    assert told["verdict"] == "ok", told
    one, other = told["ranks"]
    assert other["found"] == []
    return [(step, station, state, codes) for step, station, state, codes, _ in one["found"]]


def _first(cell):
    """FSDP2's plain loop is met in its first forward, whose window is not seen whole."""
    return 2 if cell.startswith("fsdp2") else 1


@pytest.mark.parametrize("cell", HEALTHY)
def test_healthy_runs_balance(cell):
    told = [each for each in found(cell) if each[1] in STATIONS]
    first = _first(cell)
    assert sorted({step for step, *_ in told}) == [first, first + 1, first + 2]
    assert {state for _, station, state, _ in told if station == "update"} == {"balances"}
    alike = "idle" if cell.startswith(("zero3", "fsdp2")) else "balances"
    assert {state for _, station, state, _ in told if station == "ranks"} == {alike}
    assert not any(codes for *_, codes in told)


@pytest.mark.parametrize("cell", TOLD)
def test_what_goes_wrong_is_told(cell):
    code, step = TOLD[cell]
    steps = [number for number, _, _, codes in found(cell) if code in codes]
    assert steps[0] == step


@pytest.mark.parametrize("cell", ["ddp/none", "fsdp2/none"])
def test_the_model_is_let_go(cell):
    assert all(each["let go"] for each in measured()[cell]["ranks"])
