"""Logs made to hurt: the command answers in seconds, says something true, and shows nothing raw."""

# ruff: noqa: E501
from __future__ import annotations

import random
import time

import pytest

from tests.explain import compose
from vlmguard_explain.command import explain, main

SCRAPS = (
    b"Traceback (most recent call last):\n", b'  File "x", line 1, in f\n', b"RuntimeError: ", b"\x00", b"\xff\xfe",
    b"\x1b[31m", b"\x1b]0;", b"\r", b"\n", b"[rank", b"0]: ", b"9" * 50, b"(" * 50, b"{'loss': ", b"nan, 'grad_norm': nan}\n",
    b"Root Cause (first observed failure):\n", b"  rank      : 1 (local_rank: 1)\n", b"  exitcode  : -9 (pid: 1)\n",
    b"WorkNCCL(SeqNum=1, OpType=A", b", NumelIn=7)", b"Watchdog caught collective operation timeout: ", b"Error: " * 20,
    "█".encode() * 30, b"100%|", b"| 5/10 [", b"During handling of the above exception, another exception occurred:\n",
    b"CUDA out of memory. Tried to allocate 2.00 GiB", b"--hub_token ", b"a" * 3000, b"'" * 40, b"://u:", b"@", b"\xe2\x80\xae",
)


@pytest.mark.parametrize("seed", range(8))
def test_scraps(tmp_path, capfd, seed):
    draw = random.Random(seed)
    path = tmp_path / "x.log"
    path.write_bytes(b"".join(draw.choices(SCRAPS, k=draw.choice([10, 3000]))))
    start = time.process_time()
    assert main([str(path), "--format", draw.choice(["text", "json", "github"])]) in (0, 1, 2, 3, 4)
    assert time.process_time() - start < 8
    assert not {"\x1b", "\x00"} & set(capfd.readouterr().out)


REPEATED = {
    "tracebacks": b"Traceback (most recent call last):\n" * 5_000,
    "frames": b"Traceback (most recent call last):\n" + b'  File "x", line 1, in f\n' * 5_000,
    "chains": (compose.traced("ValueError: x", None) + "During handling of the above exception\n").encode() * 500,
    "brackets": b"ValueError: " + b"[({<" * 50_000,
    "digits": b"step " + b"1" * 200_000,
    "spaces": b"RuntimeError: " + b" " * 200_000 + b"x",
    "equals": b"a=" * 100_000,
    "dots": b"zero_optimization_stage " + b"." * 200_000,
    "tokens": b"token token token " * 15_000,
    "watchdogs": b"".join(
        b"[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=X, NumelIn=1)\n" % (n, n)
        for n in range(2_500)
    ),
    "bars": "".join(f"\r{k % 100}%|██| {k}/100000 [0:01" for k in range(8_000)).encode(),
    "rank_4000000": b"[rank99999]: RuntimeError: Rank 99999] CUDA out of memory\n" * 500,
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated(tmp_path, name):
    path = tmp_path / "x.log"
    path.write_bytes(REPEATED[name])
    start = time.process_time()
    answer, _ = explain([str(path)])
    assert time.process_time() - start < 4
    assert answer.verdict in ("explained", "unknown", "unfinished", "finished")


def test_nothing_in_a_log_runs(tmp_path):
    """No pattern of a log is a path that is opened, code that is run, or data that is unpickled."""
    marker, path = tmp_path / "ran", tmp_path / "x.log"
    path.write_text(f"Traceback (most recent call last):\n  File \"{marker}\", line 1, in <module>\n    open({str(marker)!r}, 'w')\nValueError: __import__('os').mknod({str(marker)!r})\n")
    explain([str(path)])
    assert not marker.exists()
