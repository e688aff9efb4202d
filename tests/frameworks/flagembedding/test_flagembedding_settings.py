"""Our flags, freezing, and our own faults, in FlagEmbedding's real training modules."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.flagembedding import launch
from tests.frameworks.flagembedding.cases import CHECKPOINTS, ONCE, ONE_FORWARD
from tests.kit import envs
from tests.kit.oracle import bitwise
from tests.kit.standins.vlmguard_capture import digest

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(3)]


MAIN = """
import json, runpy, sys

for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments[2:]
    try:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    except Exception as error:
        print(arguments[1], error)
"""


def test_every_module_reads_our_flags(tmp_path: Path) -> None:
    """All seven in one process, each to the first error, which is ours: no model is built."""
    lines = [launch.arguments(module, ["--vlmguard", "VG101=of"]) for module in launch.MODULES]
    done = subprocess.run(
        [envs.program(launch.ENV), "-c", MAIN, json.dumps(lines)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    said = [line for line in done.stdout.splitlines() if "invalid policy 'of'" in line]
    assert [line.split()[0] for line in said] == [line[1] for line in lines], done
    assert len(said) == 7


def test_a_policy_leaves_the_crash_and_explains_it() -> None:
    flags = [*CHECKPOINTS, "--vlmguard", "VG101=off"]
    done = launch.run("reranker_decoder", flags, guard=True, ranks=1)
    assert done.returncode != 0
    after = done.output[done.output.index(ONCE) :]
    assert "VG501 explained" in after, done


@pytest.mark.parametrize(
    ("module", "own", "ours"),
    [
        ("embedder_encoder", ["--fix_position_embedding", "True"], ["*.position_embeddings.*"]),
        ("embedder_m3", ["--fix_encoder", "True"], ["llm"]),
    ],
)
def test_freezing_is_what_the_modules_own_flag_does(
    module: str, own: list[str], ours: list[str]
) -> None:
    over = "flagembedding-5.23" if module == "embedder_m3" else None
    theirs = launch.run(module, own, guard=False, over=over)
    done = launch.run(module, ["--vlmguard-freeze", *ours], guard=True, over=over)
    assert theirs.returncode == 0, theirs
    assert done.returncode == 0, done
    verdict = bitwise(done.ranks, theirs.ranks)
    assert verdict, verdict
    assert done.fixed() == {"VG301"}, done.findings


def test_embeddings_do_not_move_by_one_bit() -> None:
    free = launch.run("reranker_encoder", guard=False)
    done = launch.run("reranker_encoder", guard=True, extra={"VLMGUARD_FREEZE": "embeddings"})
    assert done.returncode == 0, done
    frozen = [name for name in free.ranks[0].initial if ".embeddings." in name]
    assert len(frozen) == 5
    for rank in done.ranks:
        for name in frozen:
            assert rank.digests[name] == digest(free.ranks[0].initial[name]), name
        assert not set(frozen) & set(rank.final)


@pytest.mark.parametrize(
    ("broken", "places"),
    [
        # The run is read through it; without a freeze policy nothing else is.
        ("vlmguard_flagembedding.names:Named.__init__", 1),
        ("vlmguard_transformers.translate:run", 1),
        (
            "vlmguard_transformers.watch.first_steps:start,vlmguard_transformers.watch.first_steps:before,"
            "vlmguard_transformers.watch.first_steps:after",
            3,
        ),
    ],
)
def test_a_fault_of_ours_changes_nothing_and_is_said_once(broken: str, places: int) -> None:
    off = launch.run(ONE_FORWARD.module, ONE_FORWARD.flags, guard=False)
    done = launch.run(
        ONE_FORWARD.module, ONE_FORWARD.flags, guard=True, extra={"VLMGUARD_TEST_FAULT": broken}
    )
    assert done.returncode == 0, done
    verdict = bitwise(done.ranks, off.ranks)
    assert verdict, verdict
    said = [(f["rank"], f["why"]) for f in done.findings if f["code"] == "VG902"]
    assert len(set(said)) == len(said) == 2 * places, done.findings
    assert all("made to fail by the tests" in why for _, why in said)


def test_the_dry_step_reports_each_part_and_leaves_no_trace() -> None:
    plain = launch.run("embedder_decoder", guard=True)
    tried = launch.run("embedder_decoder", guard=True, extra={"VLMGUARD_DRY_STEP": "true"})
    assert (plain.returncode, tried.returncode) == (0, 0), tried
    said = sorted(line for _, line in tried.lines if "dry step [" in line)
    assert [line.split("dry step ")[1].split(",")[0] for line in said] == [
        f"[rank {rank}]: llm: 28 of 28 trainable parameters got a gradient" for rank in (0, 1)
    ]
    verdict = bitwise(tried.ranks, plain.ranks)
    assert verdict, verdict
