"""What tests of installations share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tools(tmp_path_factory) -> Path:
    """uv and the backends, in a folder."""
    folder = tmp_path_factory.mktemp("tools")
    words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "uv",
             "hatchling", "uv_build", "setuptools>=77", "wheel"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT TESTED: pip reaches no package index: {done.stderr[-300:]}")
    return folder
