"""``check --deep``: a framework's own code runs, and reaches nothing of the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from vlmguard.check import framework, script
from vlmguard.check.deep import client
from vlmguard.check.reading import fields
from vlmguard.check.reading.named_files import Files

ROOT = Path(__file__).resolve().parents[2]
TRIES = """
import json, multiprocessing, os, pathlib, shutil, socket, sqlite3, subprocess, sys
from vlmguard.check.deep import outside as refusals
inside, outside = map(pathlib.Path, sys.argv[1:])
sqlite3.connect(outside / "kept.db").execute("create table kept (c)")
refusals.refuse((inside,), "no")
tried = {
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "resolve": lambda: socket.getaddrinfo("example.org", 80),
    "send": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"1", ("127.0.0.1", 9)),
    "listen": lambda: socket.socket(socket.AF_UNIX).bind(str(outside / "door")),
    "open": lambda: (outside / "a").write_text("a"),
    "append": lambda: open(outside / "kept", "a"),
    "mkdir": lambda: (outside / "b").mkdir(),
    "remove": lambda: (outside / "kept").unlink(),
    "above": lambda: (inside / ".." / "c").write_text("c"),
    "link": lambda: (inside / "way").symlink_to(outside),
    "by its folder": lambda: os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=os.open(outside, 0)),
    "a pipe": lambda: os.mkfifo(outside / "pipe"),
    "a pipe by its folder": lambda: os.mkfifo("pipe", dir_fd=os.open(outside, 0)),
    "a node": lambda: os.mknod(outside / "node"),
    "a second name": lambda: os.link(outside / "kept", inside / "name"),
    "a mode by its number": lambda: os.chmod(os.open(outside / "kept", 0), 0),
    "an attribute": lambda: os.setxattr(outside / "kept", "user.x", b"1"),
    "a database": lambda: sqlite3.connect(outside / "base.db").execute("create table t (c)"),
    "a database by its address": lambda: sqlite3.connect(f"file:{outside}/base.db?mode=rwc",
                                                         uri=True),
    "a row": lambda: sqlite3.connect(outside / "kept.db").execute("insert into kept values (1)"),
    "removed by its folder": lambda: os.unlink("kept", dir_fd=os.open(outside, 0)),
    "a program": lambda: subprocess.run(["touch", str(outside / "g")]),
    "a shell": lambda: os.system(f"touch {outside / 'h'}"),
    "a copy of itself": os.fork,
    "a worker": multiprocessing.get_context("spawn").Process(target=print).start,
    "instead": lambda: os.execvp("touch", ["touch", str(outside / "i")]),
    "through the link": lambda: (inside / "way" / "d").write_text("d"),
}
told = {}
for name, work in tried.items():
    try:
        work()
        told[name] = "done"
    except OSError as error:
        told[name] = type(error).__name__
    except sqlite3.OperationalError as error:
        told[name] = str(error)
(inside / "sub").mkdir()
(inside / "sub" / "e").write_text("e")
sqlite3.connect(":memory:").execute("create table t (c)")
sqlite3.connect(inside / "sub" / "base.db").close()
sqlite3.connect(outside / "kept.db").execute("select * from kept")
socket.socket().bind(("127.0.0.1", 0))
one, other = socket.socketpair()
one.sendmsg([b"1"])
os.mkfifo(inside / "sub" / "pipe")
os.close(os.open("l", os.O_CREAT | os.O_WRONLY, dir_fd=os.open(inside / "sub", 0)))
(inside / "gone").mkdir()
(inside / "gone" / "m").write_text("m")
shutil.rmtree(inside / "gone")
(outside / "kept").read_text()
print(json.dumps(told))
"""


def test_sockets_and_foreign_files_are_refused(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("k")
    done = subprocess.run(
        [sys.executable, "-c", TRIES, str(inside), str(outside)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told.pop("link") == "done"
    assert "readonly" in told.pop("a row")
    assert set(told.values()) == {"Refused"}, told
    assert sorted(p.name for p in outside.iterdir()) == ["kept", "kept.db"]
    assert (outside / "kept").read_text() == "k"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["inside", "outside"]
    assert sorted(p.name for p in (inside / "sub").iterdir()) == ["base.db", "e", "l", "pipe"]
    assert not (inside / "gone").exists()


def asked(tmp_path, monkeypatch, model, *words):
    """`settle` of a command, with what its process would be asked; no process is started."""
    questions = []
    monkeypatch.setattr(
        client, "_asked", lambda asked, folder, job: questions.append(asked) or client.Settled()
    )
    line = ["NPROC_PER_NODE=16", "swift", "sft", "--model", model, *words]
    reading = script.of_words(line, {})
    files = Files(str(tmp_path))
    owner = next(one for one in framework.all_() if one.name == "ms-swift")
    values = fields.Values({}, {"model": model})
    if "--external_plugins" in words:
        values.given["external_plugins"] = ["mine.py"]
    argv = list(reading.jobs[0].argv)
    return client.settle(owner, "sft", argv, values, reading.jobs[0], files), questions


def test_the_users_own_code_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"model_type": "qwen2_vl"}')
    words = ["--external_plugins", "mine.py", "other.py", "--seed", "1"]
    told, [question] = asked(tmp_path, monkeypatch, "m", *words)
    assert question["argv"] == ["--model", "m", "--seed", "1"]
    assert (question["world"], question["local"], question["plugin"]) == (16, 16, "vlmguard_swift")
    assert told.doubt == "--deep: without --external_plugins"


def test_nobody_is_asked_where_it_would_need_the_network_or_run_a_models_code(
    tmp_path, monkeypatch
):
    told, questions = asked(tmp_path, monkeypatch, "org/nowhere")
    assert "org/nowhere is not on this disk" in told.doubt
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"auto_map": {"AutoModel": "x.Y"}}')
    again, more = asked(tmp_path, monkeypatch, "m")
    assert "own code would run" in again.doubt
    assert not questions + more


def test_what_the_framework_settles_replaces_what_the_sources_said():
    known = {name: fields.Field(name, "bool", None) for name in ("freeze_vit", "freeze_llm")}
    values = fields.Values(known, {"freeze_vit": False})
    settled = client.Settled(values={"freeze_vit": True, "freeze_llm": None, "other": 1})
    assert client.taken_over(values, settled) == ["--freeze_vit True"]
    assert values.get("freeze_vit") is True
