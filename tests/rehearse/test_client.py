"""The worker is a process of its own: whatever ends this one, nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from vlmguard.rehearse import client
from vlmguard.rehearse import folder as folders
from vlmguard.rehearse.request import Request

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = """
import sys, json
from pathlib import Path
from vlmguard.rehearse import client
from vlmguard.rehearse import folder as folders
from vlmguard.rehearse.request import Request
with client.place() as folder, client.Worker("fake", folder) as worker:
    print(folder, worker._process.pid, flush=True)
    scratch = folder / "0"
    scratch.mkdir()
    data = folder / "rows.jsonl"
    data.write_text('{"messages": []}\\n')
    request = Request("fake", "sft", tuple(sys.argv[1:]), str(folder), "single", 1, str(folder),
                      "m", str(scratch), data=(str(data),))
    print(json.dumps(worker.ask(request, lambda told: None)), flush=True)
"""


def start(*flags):
    path = os.pathsep.join([str(HERE), str(ROOT), str(ROOT / "plugins")])
    env = {**os.environ, "PYTHONPATH": path}
    words = [sys.executable, "-c", PROGRAM, *flags]
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, env=env)


def of_group(group):
    """Processes of a process group that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_an_answer_comes_back_and_the_folder_goes():
    process = start("--off", "crash")
    out, _ = process.communicate(timeout=300)
    first, answer = out.splitlines()
    assert json.loads(answer)["verdict"] == "crash"
    folder, group = first.split()
    assert not Path(folder).exists()
    assert not of_group(int(group))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_rehearsal_leaves_no_process(number):
    process = start("--off", "sleeps")
    folder, group = process.stdout.readline().split()
    until = time.monotonic() + 120
    while not list(Path(folder).glob("0/guard-off/asleep")):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert len(of_group(int(group))) == 2  # the worker and its rank
    process.send_signal(number)
    process.wait(120)
    process.stdout.close()
    until = time.monotonic() + 120
    while of_group(int(group)):
        assert time.monotonic() < until, "processes were left behind"
        time.sleep(0.05)
    while Path(folder).exists():  # after a kill -9 another process takes it away
        assert time.monotonic() < until, "the folder was left behind"
        time.sleep(0.05)


def test_the_next_rehearsal_takes_away_what_a_killed_one_left(tmp_path, monkeypatch):
    """The process that waits for our end may be killed with us; another's folder stays."""
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    gone, there = tmp_path / f"{folders.PREFIX}gone", tmp_path / f"{folders.PREFIX}there"
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for folder, owner in ((gone, ended.pid), (there, os.getpid())):
        (folder / "0").mkdir(parents=True)
        (folder / "owner").write_text(folders._born(owner))
    unknown = tmp_path / f"{folders.PREFIX}unknown"
    unknown.mkdir()
    with client.place():
        assert gone.exists(), "its process is still there"
    ended.communicate(b"\n", timeout=300)
    with client.place() as folder:
        assert folder.parent == tmp_path
        assert sorted(tmp_path.iterdir()) == sorted([folder, there, unknown])
    assert not folder.exists()


def test_a_worker_that_ends_says_how(tmp_path):
    with client.Worker("no_such_adapter", tmp_path) as worker:
        request = Request("x", "sft", (), "/", "single", 1, "/", "m", str(tmp_path))
        with pytest.raises(client.Ended, match="the rehearsing process ended"):
            worker.ask(request, lambda told: None)


def test_home_and_caches_lie_in_our_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", "/home/me/hf")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnop")
    monkeypatch.setenv("VLMGUARD_RULES", "VG101=off")
    env = client.environment(tmp_path)
    for name in ("HOME", "HF_HOME", "TMPDIR", "XDG_CACHE_HOME", "MODELSCOPE_CACHE"):
        assert env[name].startswith(str(tmp_path)), name
    assert "HF_TOKEN" not in env
    assert env["VLMGUARD_RULES"] == "VG101=off"
    assert env["PYTHONDONTWRITEBYTECODE"] == "1"
