"""The ledger of a pass in which the guard is off, on a real Trainer under DDP."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.kit import envs, runs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
PROGRAM = Path(__file__).with_name("booked.py")


@functools.cache
def read(factor: int, books: str):
    """What the report holds, and the weights behind the last step."""
    folder = runs.session() / f"booked-{factor}-{books}"
    around = {**runs.variables("trl", folder, guard=False), "VLMGUARD": "off"}
    for name in ("HOME", "TMPDIR"):
        Path(around[name]).mkdir(parents=True)
    for name in ("VLMGUARD_TEST_CAPTURE", "VLMGUARD_REPORT"):
        around.pop(name, None)
    path = (envs.ROOT, envs.ROOT / "plugins", around["PYTHONPATH"])
    around["PYTHONPATH"] = os.pathsep.join(map(str, path))
    command = [envs.program("trl"), PROGRAM, folder, str(factor), books]
    done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), np.load(folder / "weights4.rank0.npz")


def warnings(lines) -> set[str]:
    return {one["code"] for one in lines if one["kind"] == "finding" and one["level"] == "warning"}


def test_every_window_of_a_healthy_pass_is_read_and_balances():
    lines, _ = read(1, "on")
    assert [one["step"] for one in lines if one["kind"] == "ledger"] == [1, 2, 3, 4]
    stations = next(one["stations"] for one in lines if one["kind"] == "ledger")
    assert stations["ranks"]["state"] == "balances", stations
    assert warnings(lines) == set()


def test_a_wrong_scale_is_told_without_the_guard():
    assert warnings(read(4, "on")[0]) == {"VG622"}
    assert read(4, "off")[0] == []


@pytest.mark.parametrize("how", ["on", "broken"])
def test_the_weights_are_bit_by_bit_those_without_it(how):
    _, with_books = read(1, how)
    _, without = read(1, "off")
    assert list(with_books) == list(without)
    assert all(np.array_equal(with_books[name], without[name]) for name in without)
