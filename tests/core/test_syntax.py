"""Every file that users run can be read by the oldest Python that we promise."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_sources_are_python_3_10():
    files = [p for top in ("vlmguard", "plugins", "examples") for p in (ROOT / top).rglob("*.py")]
    assert len(files) > 100
    for file in files:
        ast.parse(file.read_text("utf-8"), str(file), feature_version=(3, 10))


def test_the_promise_is_one():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for line in ('requires-python = ">=3.10"', 'target-version = "py310"',
                 'python_version = "3.10"'):  # fmt: skip
        assert line in text
