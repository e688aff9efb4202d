"""What a user's own script is not let do in a rehearsal: each case in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import os, sys
from pathlib import Path
from vlmguard_transformers.rehearsal import closed_off
home, mine = Path(sys.argv[1]), Path(sys.argv[2])
told = []
closed_off.close_off(home, home / "written", told.append)
try:
{body}
except closed_off.Refused as refused:
    print("refused", refused, told)
"""


def run(tmp_path, body, before=""):
    home, mine = tmp_path / "home", tmp_path / "mine"
    for each in (home, mine):
        each.mkdir()
    (mine / "there.txt").write_text("mine")
    text = before + BEGIN.format(body="\n".join(f"    {line}" for line in body.splitlines()))
    done = subprocess.run([sys.executable, "-c", text, str(home), str(mine)], text=True,
                          capture_output=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in mine.rglob("*")) == ["there.txt"]
    assert (mine / "there.txt").read_text() == "mine"
    return done.stdout


@pytest.mark.parametrize(("body", "told"), [
    ('os.remove(mine / "there.txt")', "remove"),
    ('os.rename(mine / "there.txt", mine / "b")', "rename"),
    ('os.open(mine / "new", os.O_WRONLY | os.O_CREAT)', "write"),
    ('(mine / "there.txt").open("a")', "write"),
    ('import shutil; shutil.rmtree(mine)', "rmtree"),
    ('os.system("true")', "start a process"),
    ('import subprocess; subprocess.run(["true"])', "start a process: true"),
    ('import multiprocessing as m; m.get_context("spawn").Process(target=print).start()',
     "start a process"),
    ('os.fork()', "start a process"),
    ('os.mkfifo(mine / "pipe")', "write"),
    ('os.mknod(mine / "node")', "write"),
    ('os.setxattr(mine / "there.txt", "user.x", b"1")', "setxattr"),
    ('os.link(mine / "there.txt", home / "name")', "link"),
    ('os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=os.open(mine, 0))', "write"),
    ('os.unlink("there.txt", dir_fd=os.open(mine, 0))', "remove"),
    ('import sqlite3; sqlite3.connect(f"file:{mine}/b.db?mode=rwc", uri=True)', "write"),
    ('import socket; socket.socket(type=2).sendto(b"1", ("127.0.0.1", 9))', "reach the network"),
    ('import socket; socket.create_connection(("127.0.0.1", 9), 1)', "reach the network"),
])  # fmt: skip
def test_it_is_refused_and_named(tmp_path, body, told):
    found = run(tmp_path, body)
    assert found.startswith("refused a rehearsal does not let your script")
    assert told in found


@pytest.mark.parametrize("body", [
    'os.makedirs(mine / "out/deep")\nprint("went on")',
    'os.makedirs(mine / "out")\n(mine / "out/a").write_text("x")\n'
    'print("went on", (mine / "out/a").read_text())',
    'open(mine / "there.txt", "w").write("other")\nprint("went on")',
    'open(home / "own", "w").write("x")\nos.remove(home / "own")\nprint("went on")',
    'print("went on", (mine / "there.txt").read_text())',
    'import sqlite3\nfor sql in "create table t (c)", "select * from t":\n'
    '    sqlite3.connect(mine / "new.db").execute(sql)\nprint("went on")',
    'import sqlite3\nsqlite3.connect(":memory:").execute("create table t (c)")\nprint("went on")',
    'import socket; socket.socket().bind(("", 0))\nprint("went on")',
])  # fmt: skip
def test_what_it_makes_is_made_elsewhere_and_it_goes_on(tmp_path, body):
    assert run(tmp_path, body).startswith("went on")


def test_a_link_leads_to_no_file_of_the_users(tmp_path):
    found = run(tmp_path, 'os.symlink(mine, home / "way")\n'
                'os.remove(home / "way" / "there.txt")')  # fmt: skip
    assert "remove" in found


def test_what_compiled_code_writes_is_written_elsewhere_and_found_again(tmp_path):
    body = 'torch.save([1], f=mine / "new")\nprint("went on", torch.load(mine / "new"))'
    assert run(tmp_path, body, "import torch").startswith("went on [1]")
