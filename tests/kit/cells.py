"""Programs that import once and measure several cells in real ranks, a line of JSON each."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kit import envs, runs
from tests.kit.turns import turn

LEFT_OUT: dict[Path, set[str]] = {}
"""Test file → cells that were not drawn."""
SOURCES = (envs.ROOT / "tests" / "kit" / "standins", envs.ROOT, envs.ROOT / "plugins")


@functools.cache
def measured(
    env: str, program: Path, cells: tuple[str, ...], guard: bool = False
) -> dict[str, dict[str, Any]]:
    """Cell → what was measured of it; once a session, without the cells that were not drawn.

    The test file of ``program`` stands beside it, as ``test_`` and its name.
    """
    left_out = LEFT_OUT.get(program.with_name(f"test_{program.name}"), set())
    drawn = tuple(cell for cell in cells if cell not in left_out)
    make = functools.partial(_measure, env, program, drawn, guard)
    lines = [json.loads(line) for line in runs.told(program.stem, make).splitlines()]
    return {line["cell"]: line for line in lines}


def _measure(env: str, program: Path, cells: tuple[str, ...], guard: bool) -> str:
    variables = {
        **os.environ,
        **({} if guard else {"VLMGUARD": "off"}),
        "PYTHONPATH": os.pathsep.join(map(str, SOURCES)),
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    with turn():
        done = subprocess.run(
            [envs.program(env), str(program), *cells],
            env=variables, capture_output=True, text=True, timeout=800, check=False,
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cell"')]
    assert len(lines) == len(cells), done.stdout[-2000:] + done.stderr[-4000:]
    return "\n".join(lines)
