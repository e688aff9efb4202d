"""What a process may do beside one training: two of them, an evaluation of its own, a rank with
settings of its own, a stop that the script catches. A plain Trainer on transformers 5.23."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frameworks.trainers.cases import CASES, UNFINISHED
from tests.kit import envs, runs, trainers

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(3)]
PROGRAM = runs.KIT / "programs" / "life.py"
ENV = "trl"


def run(what: str, guard: bool = True) -> runs.Outcome:
    def make(folder: Path) -> runs.Outcome:
        variables = runs.variables(ENV, folder, guard)
        line = [envs.program(ENV, "torchrun"), "--nproc_per_node", "2", "--master_port"]
        line += [variables["MASTER_PORT"], str(PROGRAM), what, str(folder / "work")]
        return runs.execute(line, folder, variables, timeout=200)

    return runs.once(["life", what, guard], make)


def trained(done: runs.Outcome) -> list[str]:
    return re.findall(r"trained to ([\d.]+)", done.output)


def test_two_trainings_are_each_greeted_mended_and_summed_up() -> None:
    assert "ready only once" in run("twice", guard=False).output
    done = run("twice")
    assert done.returncode == 0, done
    assert len(trained(done)) == 4
    assert len(set(trained(done))) == 1, "both, on both ranks, from the same seed"
    assert done.output.count("VG101 fixed") == 2
    assert done.output.count("1 fixed (VG101)") == 2
    assert {finding["run"] for finding in done.findings} == {1, 2}


def test_an_evaluation_of_its_own_is_no_training() -> None:
    done = run("evaluated")
    assert done.returncode == 0, done
    assert done.output.count("VG101 fixed") == 1, "the training after it"
    assert len(trained(done)) == 2


def test_ranks_with_different_settings_stop_with_both_sides_named() -> None:
    done = run("apart")
    assert done.returncode != 0
    assert not done.hung, done
    assert {(f["code"], f["rank"]) for f in done.findings if f["outcome"] == "stopped"} <= {
        ("VG406", 0),
        ("VG406", 1),
    }
    assert re.search(r"Ranks 0 and 1 have different settings.*VG101=off", done.output)
    assert not trained(done)


def test_a_rank_that_a_fault_of_ours_leaves_unmended_is_known_to_the_other() -> None:
    """Rank 0 would train another variant than rank 1, whose fault is said there alone."""
    done = run("lost")
    assert done.returncode != 0
    assert not done.hung, done
    assert "made to fail: vlmguard_transformers.profiles:of" in done.output
    stopped = [(f["code"], f["rank"]) for f in done.findings if f["outcome"] == "stopped"]
    assert stopped == [("VG406", 0)]
    assert "Ranks 0 and 1 planned different changes (rank 0: use_reentrant=False" in done.output
    assert not trained(done)


def test_a_stop_that_the_script_catches_ends_nothing() -> None:
    done = run("caught")
    assert done.returncode == 0, done
    assert done.output.count("caught vlmguard stopped this run") == 2
    assert len(re.findall(r"rank \d lives", done.output)) == 2


@pytest.mark.campaign
def test_what_a_loops_forward_raises_is_explained():
    """DDP's own words come out of the wrapper's forward, where no Trainer is around it."""
    told = {"VLMGUARD_RULES": "VG106=off"}
    done = trainers.run(CASES["loop-mixed"].command, guard=True, extra=told)
    assert done.returncode != 0
    assert UNFINISHED in done.output
    assert "VG503" in {f["code"] for f in done.findings if f["outcome"] == "explained"}
