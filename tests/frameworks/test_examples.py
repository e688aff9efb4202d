"""The examples that CONTRIBUTING.md has people copy: their own tests, from their own folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("name", ["vlmguard-example", "vlmguard-tinyloop"])
def test_an_example_passes_its_own_tests(name):
    folder = ROOT / "examples" / name
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
           "CUDA_VISIBLE_DEVICES": "",
           "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "plugins", folder)))}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "."]
    done = subprocess.run([*command, "-p", "no:cacheprovider"], cwd=folder, env=env, text=True,
                          capture_output=True, timeout=500, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
