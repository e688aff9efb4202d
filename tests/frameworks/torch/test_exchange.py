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
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}",
               f"--master-port={free_port()}", *flags, SCRIPT, mode]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return told(done.stdout), done.stderr


def answers(said):
    """Rank → {rank → value}; JSON has made the keys strings."""
    return {
        rank: got and {int(key): value for key, value in got.items()}
        for rank, got in ((rank, line["got"]) for rank, line in said.items())
    }


@pytest.mark.parametrize("ranks", [2, 3])
def test_through_torchruns_agent(ranks):
    told, stderr = torchrun("everything", ranks)
    every = range(ranks)
    for what, value in (
        ("before", lambda rank: f"d{rank}"),
        ("again", lambda rank: [rank, {"kinds": ["image"]}]),
        ("after", lambda rank: rank),
        ("skew", lambda rank: rank),
        ("later", lambda rank: rank),
        ("at the end", lambda rank: rank),
    ):
        assert answers(told[what]) == {r: {k: value(k) for k in every} for r in every}, what
    assert answers(told["one-sided"]) == {0: {0: 0}}
    assert answers(told["never"]) == {0: {0: 0}}
    assert 2.0 <= told["never"][0]["seconds"] < 10
    assert told["skew"][0]["longest"] > 0.5  # it waited
    assert max(line["seconds"] for line in told["skew"].values() if line["rank"]) < AT_ONCE
    assert max(line["seconds"] for line in told["after"].values()) < AT_ONCE
    assert {line["got"] for line in told["collective"].values()} == {float(ranks)}
    assert "TCPStore" not in stderr
    assert "Traceback" not in stderr


def test_a_restart_does_not_read_what_was_left_before_it():
    told, _ = torchrun("restarted", 2, "--max-restarts=1")
    assert {len(got) for got in answers(told["found in attempt 1"]).values()} <= {0, 1}
    for attempt in (0, 1):
        expected = dict.fromkeys((0, 1), f"attempt {attempt}")
        assert answers(told[f"attempt {attempt}"]) == {0: expected, 1: expected}
    for got in answers(told["found in attempt 1"]).values():
        assert set(got.values()) <= {"attempt 1"}


def test_a_port_that_nobody_serves_is_no_store():
    told, stderr = torchrun("moved", 2)
    for what in ("moved", "moved again"):
        assert answers(told[what]) == {0: None, 1: None}
        assert max(line["seconds"] for line in told[what].values()) < AT_ONCE
    assert "TCPStore" not in stderr


def test_without_an_agent_only_after_init():
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "alone"],
            env=environment(
                RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            ),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    done = [child.communicate(timeout=300) for child in started]
    assert [child.returncode for child in started] == [0, 0], done
    said = told(*(out for out, _ in done))
    assert answers(said["before"]) == {0: None, 1: None}
    assert max(line["seconds"] for line in said["before"].values()) < AT_ONCE
    assert answers(said["after"]) == {0: {0: 0, 1: 1}, 1: {0: 0, 1: 1}}
    assert not any("TCPStore" in err for _, err in done)
