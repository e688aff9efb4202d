"""Nothing happens when a script is read: the same scripts, given to bash, do leave a trace."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests.check import hostile
from vlmguard.check import script
from vlmguard.check.shell.evaluate import evaluate

_WATCHED: list[str] = []
_ON = [False]
_ACTS = re.compile(
    r"subprocess|os\.(exec|fork|posix_spawn|spawn|system|remove|rename|rmdir|mkdir|link|symlink|"
    r"truncate|chmod|chown|utime|kill|putenv)|socket|shutil|ctypes|urllib|http|tempfile"
)


def _hook(event: str, args: tuple) -> None:
    if not _ON[0]:
        return
    if event == "open":
        mode, flags = args[1], args[2]
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
            _WATCHED.append(f"open {args[0]} {mode}")
    elif _ACTS.match(event) and event != "os.putenv":
        _WATCHED.append(f"{event} {args}")


@pytest.fixture(scope="module", autouse=True)
def _watch():
    sys.addaudithook(_hook)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # a module's first import writes it
        yield
    _ON[0] = False


def read(text: str, folder, canary) -> script.Reading:
    """Read a script with the audit on."""
    (folder / "train.sh").write_text(text)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CANARY": str(canary)}
    before = sorted(folder.rglob("*"))
    _WATCHED.clear()
    _ON[0] = True
    try:
        reading = script.of_file("train.sh", [], env)
        script.literally("train.sh")
    finally:
        _ON[0] = False
    assert _WATCHED == []
    assert sorted(folder.rglob("*")) == before
    return reading


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is the other side")
@pytest.mark.parametrize("text", hostile.SCRIPTS)
def test_bash_acts_and_reading_does_not(text, tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    read(text, folder, canary)
    assert not os.path.lexists(canary)

    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CANARY": str(canary)}
    subprocess.run(["bash", "train.sh"], env=env, timeout=100, capture_output=True, check=False)
    assert os.path.lexists(canary), "not hostile: the test says nothing"


@pytest.mark.parametrize("text", hostile.NETWORK)
def test_no_socket_no_deletion(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").mkdir()
    read(text + "\nswift sft --model x\n", tmp_path, tmp_path / "canary")


@pytest.mark.parametrize("text", hostile.ENDLESS)
def test_reading_ends(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = time.process_time()
    reading = read(text, tmp_path, tmp_path / "canary")
    assert time.process_time() - started < 4
    assert reading.jobs == ()


def test_damaged_scripts_are_refused_not_crashed_on(tmp_path):
    """Scripts with characters lost, put in and copied: an answer or a refusal, soon."""
    draw = random.Random(0)
    marks = [*"\"'`$(){}[];&|<>\\#*?!~=\n ", "$((", "))", "${", "<<EOF\n", "done", "fi", "esac",
             "[["]  # fmt: skip
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CANARY": str(tmp_path / "canary")}
    started = time.process_time()
    for _ in range(300):
        text = "\n".join(draw.choices(hostile.SCRIPTS, k=3))
        for _ in range(draw.randint(1, 4)):
            at, other = draw.randrange(len(text)), draw.randrange(len(text))
            put = draw.choice([draw.choice(marks), "", text[other : other + 9]])
            text = text[:at] + put + text[at + draw.randint(0, 3) :]
        evaluate(text, "x", str(tmp_path), env)
    assert time.process_time() - started < 10
    assert list(tmp_path.iterdir()) == []


def test_reading_a_pipe_does_not_wait(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    read("cat < pipe; x=$(cat pipe); source pipe; grep x pipe; [ -s pipe ]", tmp_path, tmp_path)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is the auditor")
def test_the_kernel_saw_nothing(tmp_path):
    """The whole command under strace: no second program, no socket, nothing opened for writing."""
    folder = tmp_path / "work"
    folder.mkdir()
    text = "\n".join(f"( {line}\n)" for line in (*hostile.LINES, *hostile.NETWORK))
    (folder / "train.sh").write_text(text + "\nswift sft --model x --dataset y\n")
    env = {**os.environ, "CANARY": str(tmp_path / "canary"), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "import sys; from vlmguard.cli.main import main; sys.exit(main())"
    log = tmp_path / "log"
    calls = ("execve,execveat,fork,vfork,socket,connect,unlink,unlinkat,rename,renameat,renameat2,"
             "mkdir,mkdirat,rmdir,symlink,symlinkat,link,linkat,truncate,ftruncate,chmod,fchmod,"
             "fchmodat,creat,open,openat,kill")  # fmt: skip
    subprocess.run(
        ["strace", "-f", "-o", str(log), "-e", f"trace={calls}",
         sys.executable, "-c", code, "check", "train.sh"],
        cwd=folder, env=env, capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    seen = log.read_text().splitlines()
    started = next(n for n, line in enumerate(seen) if "train.sh" in line and "openat" in line)
    acts = [line for line in seen if not _only_reads(line)]
    assert started > 0
    assert [line for line in acts if "execve" in line][1:] == []
    assert [line for line in acts if "execve" not in line] == []
    assert not os.path.lexists(tmp_path / "canary")


def _only_reads(line: str) -> bool:
    if "open" in line:
        return not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", line)
    return "+++" in line or "---" in line
