"""What ranks tell each other through torchrun's own store, in real ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import envs
from vlmguard.ranks import ports

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
SCRIPT = str(Path(__file__).with_name("exchanging.py"))
AT_ONCE = 1.5
"""Seconds that a busy machine may take for some milliseconds; who waits for a rank waits 2."""


def environment(**more):
    path = ":".join(envs.SOURCES or (str(envs.ROOT),))
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return {**known, "GLOO_SOCKET_IFNAME": "lo", "FREE_PORT": free_port(), **more}


def free_port():
    return str(ports.free())


def told(*outputs):
    """What was said → rank → the line."""
    found = {}
    for line in "\n".join(outputs).splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            found.setdefault(said["what"], {})[said["rank"]] = said
    return found


def torchrun(mode, ranks, *flags):
    port = [] if "--standalone" in flags else [f"--master-port={free_port()}"]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}",
               *port, *flags, SCRIPT, mode]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return told(done.stdout), done.stderr


def answers(said):
    """Rank → what it was told."""
    return {rank: line["got"] for rank, line in said.items()}


def all_heard(said, ranks, values):
    """Whether each of so many ranks was told that all were heard, with these values."""
    return answers(said) == {rank: [True, ranks, values] for rank in range(ranks)}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("rendezvous", ["--rdzv-backend=static", "--standalone"])
def test_through_torchruns_agent(ranks, rendezvous):
    """--standalone is a c10d rendezvous on this machine."""
    told, stderr = torchrun("everything", ranks, rendezvous)
    every = [*range(ranks)]
    for what, values in (
        ("before", [f"d{rank}" for rank in every]),
        ("again", [[0, {"kinds": ["image"]}], [1, {"kinds": ["image"]}]]),
        ("after", every),
        ("skew", every),
        ("at the end", every),
    ):
        assert all_heard(told[what], ranks, values), (what, told[what])
    assert answers(told["one-sided"]) == answers(told["never"]) == {0: [False, 1, [0]]}
    assert answers(told["adopted"]) == {rank: [False, 1, [0]] for rank in every[1:]}
    assert max(line["seconds"] for line in told["adopted"].values()) < AT_ONCE
    assert 2.0 <= told["never"][0]["seconds"] < 10
    assert told["skew"][0]["longest"] > 0.5  # it waited
    assert max(line["seconds"] for line in told["skew"].values() if line["rank"]) < AT_ONCE
    assert max(line["seconds"] for line in told["after"].values()) < AT_ONCE
    assert set(answers(told["left open"]).values()) == {0}
    assert set(answers(told["opened beside the group's"]).values()) == {0}
    assert set(answers(told["on either side"]).values()) == {True}
    assert {line["got"] for line in told["collective"].values()} == {float(ranks)}
    assert "TCPStore" not in stderr
    assert "Traceback" not in stderr


def test_a_restart_does_not_read_what_was_left_before_it():
    told, _ = torchrun("restarted", 2, "--max-restarts=1")
    for attempt in (0, 1):
        what = f"attempt {attempt}"
        assert all_heard(told[what], 2, [what]), told


def test_a_port_that_nobody_serves_is_not_waited_for():
    told, stderr = torchrun("moved", 2)
    for what in ("moved", "moved again"):
        assert answers(told[what]) == {0: [False, 0, []], 1: [False, 0, []]}
        assert max(line["seconds"] for line in told[what].values()) < AT_ONCE
    assert "TCPStore" not in stderr


def without_an_agent(mode, **more):
    """Two ranks that no launcher of torch's has started."""
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, SCRIPT, mode],
            env=environment(
                RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more
            ),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    done = [child.communicate(timeout=300) for child in started]
    assert [child.returncode for child in started] == [0, 0], done
    assert not any("TCPStore" in err for _, err in done)
    return told(*(out for out, _ in done))


def test_without_an_agent_only_after_init():
    said = without_an_agent("alone")
    assert answers(said["before"]) == {0: None, 1: None}
    assert max(line["seconds"] for line in said["before"].values()) < AT_ONCE
    assert all_heard(said["after"], 2, [0, 1])


def test_a_process_group_whose_store_is_a_file(tmp_path):
    said = without_an_agent("filed", STORE=str(tmp_path / "store"))
    assert all_heard(said["filed"], 2, [0, 1])
