"""Stations reduce and reach in real ranks: DDP, ZeRO and FSDP2, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import cells

ALWAYS = ("test_the_norm_that_is_clipped_to_is_seen", "ddp/clipped", "fsdp2/clipped", "ddp/lost",
          "ddp/uncleared", "zero3/stale")  # fmt: skip
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(10, always=ALWAYS)]
PROGRAM = Path(__file__).parent / "sums_ranks.py"

EXACT = (
    "ddp/accumulated", "ddp+view+zeros/synced", "ddp/mixed", "ddp/clipped",
    "zero1/plain", "zero2+offload/accumulated", "zero2+overlap/plain", "zero2+clip/plain",
    "zero3/accumulated", "zero3+offload+overlap/plain",
    "fsdp2/accumulated", "fsdp2+zeros/synced", "fsdp2/functional", "fsdp2/clipped",
)  # fmt: skip
"""Right, and measured at 3e-7 at most."""
ROUNDED = (
    "ddp+bf16/accumulated",
    "zero1+sum32/accumulated",
    "zero3+bf16/plain",
    "fsdp2+bf16/plain",
)
"""Right, and measured at 7e-3 at most."""
WRONG = {
    "ddp/past": ("VG640", "the forward went past the DDP wrapper"),
    "ddp/unsynced at the end": ("VG640", "different gradients: the last micro-batch ran under no_"),
    "ddp/drift": ("VG640", "the ranks' optimizers get different gradients"),
    "ddp/lost": ("VG640", "rank 1's part of the gradient is missing"),
    "ddp/summed": ("VG641", "as if summed over 2 ranks"),
    "ddp/uncleared": ("VG642", "not cleared since step 1"),
    "zero3/stale": ("VG640", "the gradient of an earlier step"),
    "zero3/twice": ("VG640", "of several gradients of a parameter"),
    "fsdp2/twice": ("VG640", "earlier step is added"),
}
UNREAD = {"zero2+roundrobin/plain": "round_robin_gradients"}


def measured():
    """Every cell's windows."""
    every = cells.measured("trl", PROGRAM, (*EXACT, *ROUNDED, *WRONG, *UNREAD))
    return {cell: line["told"] for cell, line in every.items()}


def windows(cell, station="reduce"):
    told = measured()[cell]
    assert isinstance(told, list), told
    return [each for window in told for each in window if each["station"] == station]


@pytest.mark.parametrize("cell", [*EXACT, *ROUNDED])
def test_what_is_right_balances(cell):
    for each in windows(cell):
        assert (each["state"], each["said"]) == ("balances", [])
        assert each["off"] < (1e-6 if cell in EXACT else 1e-2)
        assert each["tensors"] == (7 if "functional" in cell else 8)


@pytest.mark.parametrize("cell", [*EXACT, *ROUNDED])
def test_and_every_tensor_is_reached(cell):
    assert all(each["said"] == [] for each in windows(cell, "reach"))


def test_the_norm_that_is_clipped_to_is_seen():
    assert [each["clipped"] for each in windows("ddp/clipped")] == [pytest.approx(0.1, 1e-3)] * 3
    assert [each["clipped"] for each in windows("fsdp2/clipped")] == [pytest.approx(0.01, 1e-3)] * 3


@pytest.mark.parametrize("cell", WRONG)
def test_what_is_wrong_is_told(cell):
    code, words = WRONG[cell]
    last = windows(cell)[-1]
    assert last["state"] == "differs"
    assert (code, "warning") in [tuple(each[:2]) for each in last["said"]]
    assert any(words in each[2] for each in last["said"])


@pytest.mark.parametrize("cell", UNREAD)
def test_what_cannot_be_read_says_why(cell):
    assert all(UNREAD[cell] in each["reason"] for each in windows(cell))
    assert all(each["state"] == "balances" for each in windows(cell, "reach"))
