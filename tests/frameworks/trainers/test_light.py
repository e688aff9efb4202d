"""A healthy run imports nothing that explains, checks or rehearses. A plain Trainer on
transformers 5.23."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.kit import trainers

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
SCRIPT = """import runpy, sys
runpy.run_path({script!r}, run_name="__main__")
late = ("vlmguard_explain", "vlmguard.check", "vlmguard.rehearse", "vlmguard.cli")
found = [name for name in sys.modules if name.startswith(late)]
print("judged:", "vlmguard.guard" in sys.modules, "too early:", found, flush=True)
"""


def test_a_healthy_run_imports_nothing_of_explain(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(script=str(trainers.PROGRAMS / "train.py")))
    command = trainers.plain("image")
    words = [str(script) if word.endswith("train.py") else word for word in command.words]
    done = trainers.run(dataclasses.replace(command, words=words), guard=True, cold=False)
    assert done.returncode == 0, done
    assert done.output.count("judged: True too early: []") == 2, done
