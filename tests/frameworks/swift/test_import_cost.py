"""What a bare import of the real frameworks costs more with the watcher than without."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.kit import envs, noise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
GUARD = "import vlmguard._bootstrap as b; b.install()"
WATCHED = {
    "transformers": ["", "._bootstrap"],
    "swift": ["", "._bootstrap", ".runtime", ".runtime.seams", ".runtime.stub",
              "_swift", "_trl"],  # ms-swift imports trl
}  # fmt: skip
LIMIT = 5.0
"""Milliseconds of processor time."""


def command(guard, what, then=""):
    """-S reads no .pth: the control has everything but the guard."""
    python = envs.program("swift")
    packages = next(envs.path("swift").glob("lib/python*/site-packages"))
    code = f"import os, sys; sys.path.append({str(packages)!r}); {guard}; import {what}; {then}"
    return [python, "-S", "-c", code]


def environment():
    path = envs.SOURCES or (str(envs.ROOT), str(envs.ROOT / "plugins"))
    known = {"PYTHONPATH": ":".join(path), "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return {**known, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("what", WATCHED)
def test_it_brings_in_nothing_but_a_few_modules_of_ours(what):
    def modules(guard):
        line = command(guard, what, "print(*sys.modules)")
        done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert modules(GUARD) - modules("0") == {f"vlmguard{name}" for name in WATCHED[what]}


def test_and_a_few_milliseconds():
    """Interleaved pairs of processor time. Of ms-swift, whose import alone is 0.2 s: the noise of
    transformers' is larger than the limit, and it brings in no module of ours but the watcher."""

    def run(guard):
        child = subprocess.Popen(command(guard, "swift"), env=environment())
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return 1000 * (used.ru_utime + used.ru_stime)

    run(GUARD)  # writes the bytecode


    def pairs():
        for _ in range(7):
            yield run(GUARD) - run("0")
            yield -(run("0") - run(GUARD))

    noise.at_most(LIMIT, "ms", pairs)
