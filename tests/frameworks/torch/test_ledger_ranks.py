"""The ledger in plain loops, in real ranks: what is told, and which healthy strategies are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import cells

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
PROGRAM = Path(__file__).parent / "ledger_ranks.py"

HEALTHY = (
    *("ddp/none", "ddp/frozen", "ddp/lr 0", "fsdp2/none"),
    *("ddp/text", "fsdp2/text", "zero2/text"),
    *("zero1/none", "zero2/none", "zero3/none", "zero2bf16/none", "zero3bf16/none", "zero3/lr 0"),
)
TOLD = {
    "ddp/drift": ("VG660", 2),
    "ddp/past the wrapper": ("VG660", 1),
    "fsdp2/early": ("VG650", 2),
}
TWO_RUNS = "ddp/two runs"
STATIONS = ("update", "ranks")


def measured():
    return cells.measured("trl", PROGRAM, (*HEALTHY, *TOLD, TWO_RUNS), guard=True)


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


def test_trainings_in_process_groups_of_their_own_are_not_taken_for_one():
    told = found(TWO_RUNS)
    assert {station for _, station, *_ in told} == set(STATIONS)
    assert not any(codes for *_, codes in told)


@pytest.mark.parametrize("cell", TOLD)
def test_what_goes_wrong_is_told(cell):
    code, step = TOLD[cell]
    steps = [number for number, _, _, codes in found(cell) if code in codes]
    assert steps[0] == step


@pytest.mark.parametrize("cell", ["ddp/none", "fsdp2/none"])
def test_the_model_is_let_go(cell):
    assert all(each["let go"] for each in measured()[cell]["ranks"])
