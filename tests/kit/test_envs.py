"""Environments of the tests."""

from __future__ import annotations

import sys

import pytest

from tests.kit import envs

FAILS = """
import pathlib, sys
tried = pathlib.Path({!r})
tried.write_text(tried.read_text() + ".")
sys.exit(len(tried.read_text()) < {})
"""


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_a_step_is_tried_again(monkeypatch, tmp_path, capfd, needed):
    monkeypatch.setattr(envs, "HOME", tmp_path)
    monkeypatch.setattr(envs, "AGAIN", 0)
    tried = tmp_path / "tried"
    tried.touch()
    command = (sys.executable, "-c", FAILS.format(str(tried), needed))
    if needed > 3:
        with pytest.raises(SystemExit, match="dev: a step failed with exit code 1"):
            envs._run("dev", "a step", *command, tries=3)
    else:
        envs._run("dev", "a step", *command, tries=3)
    assert len(tried.read_text()) == min(needed, 3)
    assert capfd.readouterr().out.count("failed") == min(needed, 4) - 1
