"""Once nothing is left to look at in a run's steps, its seams rest. What raises there is explained
all the same. A loop on accelerate and transformers 5.23."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import envs, runs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
ENV = "trl"


def run(guard: bool) -> runs.Outcome:
    def make(folder: Path) -> runs.Outcome:
        line = [envs.program(ENV), str(runs.KIT / "programs" / "late_loop.py")]
        return runs.execute(line, folder, runs.variables(ENV, folder, guard), timeout=120)

    return runs.once(["late loop", guard], make)


def test_what_a_late_backward_raises_is_explained() -> None:
    for guard in (False, True):
        done = run(guard)
        assert done.returncode != 0, done
        assert "RuntimeError: Expected to mark a variable ready only once." in done.output
        told = [f["code"] for f in done.findings if f["outcome"] == "explained"]
        assert told == (["VG501"] if guard else [])
        assert f"rests: {['backward', 'step'] if guard else []}" in done.output
