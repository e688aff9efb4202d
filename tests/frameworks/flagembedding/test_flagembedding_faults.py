"""Each function of the adapter raises instead of working, in a real training of one process.

A healthy run stays bitwise equal; a wish is obeyed whole or not at all; a broken run is right, or
fails as it would without the guard.
"""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.flagembedding import launch
from tests.frameworks.flagembedding.cases import CHECKPOINTS, ONCE, ONE_FORWARD
from tests.kit import envs, runs
from tests.kit.adapters import functions
from tests.kit.oracle import bitwise
from tests.kit.standins.vlmguard_capture import Rank, read

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
ONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
KINDS = {
    "healthy": (ONE_FORWARD.module, ONE_FORWARD.flags, {"VLMGUARD_DRY_STEP": "1"}),
    "frozen": ("embedder_encoder", (), {"VLMGUARD_FREEZE": "embeddings"}),
    "broken": ("embedder_decoder", CHECKPOINTS, {}),
}
TARGETS = functions("vlmguard_flagembedding", {"train"})


@functools.cache
def trainings(guard: bool) -> Path:
    """A folder with one training in ``KIND/TARGET`` for each kind and each function, and in
    ``KIND/none`` one in which nothing is made to fail."""
    home = runs.session() / f"flagembedding-faults-{'on' if guard else 'off'}"
    with runs.locked(home.with_suffix(".lock")):
        if home.exists():
            return home
        half = home.with_suffix(".half")
        targets = ("none", *TARGETS) if guard else ("none",)
        jobs = [_job(half, kind, target) for kind in KINDS for target in targets]
        for each in ("home", "tmp"):
            (half / each).mkdir()
        (half / "jobs.json").write_text(json.dumps(jobs))
        script = str(Path(__file__).with_name("rank_divergence.py"))
        subprocess.run(
            [envs.program(launch.ENV), script, str(half / "jobs.json")],
            env=runs.variables(launch.ENV, half, guard),
            cwd=half,
            timeout=600,
            check=True,
        )
        half.rename(home)
    return home


def _job(home: Path, kind: str, target: str) -> dict[str, object]:
    module, flags, environment = KINDS[kind]
    folder = home / kind / target
    folder.mkdir(parents=True)
    fault = {} if target == "none" else {"VLMGUARD_TEST_FAULT": target}
    return {
        "folder": str(folder),
        "arguments": launch.arguments(module, flags),
        "environment": {**ONE, **environment, **fault},
    }


Outcome = tuple[int, str, tuple[Rank, ...]]


def outcome(kind: str, target: str = "none", guard: bool = True) -> Outcome:
    folder = trainings(guard) / kind / target
    printed = (folder / "output").read_text(errors="replace")
    return int((folder / "exit").read_text()), printed, read(folder / "capture")


def test_without_a_fault_the_three_differ_as_they_should() -> None:
    off, on = outcome("healthy", guard=False), outcome("healthy")
    assert (off[0], on[0]) == (0, 0), on[1]
    assert "VG902" not in on[1]
    assert "dry step [" in on[1]
    free, frozen = outcome("frozen", guard=False), outcome("frozen")
    assert (free[0], frozen[0]) == (0, 0), frozen[1]
    assert free[2][0].digests != frozen[2][0].digests
    crashed, right = outcome("broken", guard=False), outcome("broken")
    assert ONCE in crashed[1]
    assert right[0] == 0, right[1]


@pytest.mark.parametrize("target", TARGETS)
def test_a_healthy_run_stays_bitwise_equal(target: str) -> None:
    code, printed, ranks = outcome("healthy", target)
    assert code == 0, printed
    verdict = bitwise(ranks, outcome("healthy", guard=False)[2], world=1)
    assert verdict, verdict
    assert "VG902" in printed
    assert "made to fail by the tests" in printed


@pytest.mark.parametrize("target", TARGETS)
def test_a_wish_is_obeyed_whole_or_not_at_all(target: str) -> None:
    code, printed, ranks = outcome("frozen", target)
    assert code == 0, printed
    whole, free = outcome("frozen")[2][0], outcome("frozen", guard=False)[2][0]
    assert ranks[0].digests in (whole.digests, free.digests)


@pytest.mark.parametrize("target", TARGETS)
def test_a_broken_run_is_right_or_fails_as_it_would(target: str) -> None:
    code, printed, ranks = outcome("broken", target)
    if code:
        assert ONCE in printed, printed
    else:
        verdict = bitwise(ranks, outcome("broken")[2], world=1)
        assert verdict, verdict
