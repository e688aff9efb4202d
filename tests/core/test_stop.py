"""What becomes of a process with a `Stop` in it: one that swallowed it lives, one that is on its
way out ends. Real processes, the grace cut to half a second."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

from tests.kit import envs
from tests.kit.pace import Pace

HEAD = """
import sys, threading, time
from vlmguard.core.errors import Stop
from vlmguard.runtime import stop
stop.GRACE = 0.5

def train():
    error = Stop("VG101: why")
    stop.abort(error)
    raise error

def stuck():
    while True:
        try:
            raise ValueError("polled in vain")
        except ValueError:
            time.sleep(0.05)

def save(name):
    # slowly, as to a file system that others use
    with open(f"{sys.argv[0]}.{name}", "wb") as file:
        for _ in range(10):
            file.write(b"x" * 1024)
            file.flush()
            time.sleep(0.2)

class Framework:
    def __enter__(self): pass
    def __exit__(self, *why): stuck()

"""
LIVES = {
    "swallowed": """
        try:
            train()
        except Exception:
            pass
        time.sleep(2)
    """,
    "kept": """
        try:
            train()
        except Exception as error:
            kept = error
        time.sleep(2)
    """,
    "a second training in the clause": """
        try:
            train()
        except Exception:
            for _ in range(20):
                try:
                    raise KeyError
                except KeyError:
                    time.sleep(0.1)
    """,
    "swallowed by a caller, after frameworks that raise it again": """
        def inner():
            try:
                train()
            except Exception as error:
                raise RuntimeError("training failed") from error
            finally:
                time.sleep(0.1)
        try:
            inner()
        except RuntimeError:
            time.sleep(2)
    """,
    "saved before it is raised again": """
        try:
            try:
                train()
            except Exception:
                save("except")
                raise
            finally:
                save("finally")
        except Stop:
            pass
    """,
    "computing on its way out": """
        try:
            try:
                train()
            finally:
                until = time.monotonic() + 2
                while time.monotonic() < until:
                    sum(range(10000))
        except Stop:
            pass
    """,
    "a program of its own": """
        import subprocess
        try:
            try:
                train()
            finally:
                subprocess.run(["sleep", "2"])
        except Stop:
            pass
    """,
}
ENDS = {
    "saved, then stuck": """
        try:
            train()
        except Exception:
            save("first")
            stuck()
            raise
    """,
    "finally": """
        try:
            train()
        finally:
            stuck()
    """,
    "with": """
        with Framework():
            train()
    """,
    "raised again after a clean-up": """
        try:
            train()
        except Exception:
            stuck()
            raise
    """,
    "another raised from it": """
        try:
            try:
                train()
            except Exception as error:
                raise RuntimeError from error
        finally:
            stuck()
    """,
    "swallowed too late": """
        try:
            try:
                train()
            finally:
                stuck()
        except Exception:
            pass
    """,
    "another thread": """
        threading.Thread(target=stuck).start()
        train()
    """,
}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x"}
LAUNCHERS = {
    "torchrun": TORCHRUN,
    "slurm": {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
}


def process(tmp_path, code, launcher):
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(code) + "\nprint('the end')\n")
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(envs.SOURCES)}
    return subprocess.Popen(
        [sys.executable, str(script)], env={**known, **launcher},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.timeout(200)
def test_where_it_was_swallowed_nothing_is_ended(tmp_path):
    """All at once: most of their time they sleep."""
    for name in LIVES:
        (tmp_path / name).mkdir()
    started = {n: process(tmp_path / n, LIVES[n], LAUNCHERS["slurm"]) for n in LIVES}
    for name, child in started.items():
        out, err = child.communicate(timeout=180)
        assert (child.returncode, out) == (0, "the end\n"), f"{name}: {err}"


@pytest.mark.timeout(200)
def test_where_it_is_stuck_on_its_way_out_the_rank_ends(tmp_path):
    for name in ENDS:
        (tmp_path / name).mkdir()
    pace = Pace()
    started = {n: process(tmp_path / n, ENDS[n], LAUNCHERS["mpirun"]) for n in ENDS}
    while left := [n for n, child in started.items() if child.poll() is None]:
        if pace.look([started[name].pid for name in left]) > 15:
            for name in left:
                started[name].kill()
            pytest.fail(f"{left} hang")
        time.sleep(0.05)
    for name, child in started.items():
        out, _ = child.communicate()
        assert (child.returncode, out) == (1, ""), name


@pytest.mark.timeout(200)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher(tmp_path, launcher):
    child = process(tmp_path, ENDS["finally"], LAUNCHERS[launcher])
    child.communicate(timeout=180)
    assert child.returncode == 1


@pytest.mark.timeout(200)
def test_without_other_ranks_nothing_is_ended(tmp_path):
    code = "stop.abort(Stop('x')); print(threading.active_count())"
    out, err = process(tmp_path, code, {}).communicate(timeout=180)
    assert out == "1\nthe end\n", err
