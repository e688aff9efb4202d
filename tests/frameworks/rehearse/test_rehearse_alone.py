"""Healthy ZeRO-3 runs whose shapes do not divide the ranks: one rank alone raises no alarm."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs

SEED = 7


def draws(first, count):
    program = Path(__file__).with_name("alone_draws.py")
    path = os.pathsep.join([str(envs.ROOT), str(envs.ROOT / "plugins")])
    done = subprocess.run(
        [envs.program("swift"), str(program), str(SEED), str(first), str(count)], text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": path}, timeout=300 + 60 * count,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"number"')]


def healthy(found, count):
    assert len(found) == count
    for draw in found:
        assert draw["two"] in ("ok", ""), f"not a healthy run: {draw}"
        assert draw["fault"] == "", f"a false alarm: {draw}"
    assert {draw["size"] for draw in found} == {8, 64, 512}


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_three_of_them():
    healthy(draws(0, 3), 3)


@pytest.mark.frameworks
@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_fifty():
    healthy(draws(0, 51), 51)
