"""``vlmguard selftest`` and ``doctor`` where the real frameworks are installed."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit import envs, swift

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]


def vlmguard(env, *words):
    python = envs.program(env)
    path = os.pathsep.join([str(swift.KIT / "standins"), *envs.SOURCES])
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": path}
    command = [python, "-m", "vlmguard", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("env", "framework"),
    [("swift", "swift"), ("swift", "transformers"), ("flagembedding", "FlagEmbedding")],
)
def test_the_selftest_crashes_without_and_trains_with_the_guard(env, framework):
    done = vlmguard(env, "selftest", "--framework", framework, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["off"]["verdict"] == "crash"
    assert told["crash"] in told["off"]["message"]
    assert told["on"]["verdict"] == "ok"
    assert 1 < told["processor"] < 60, "its page says: under a minute"
    assert "VG101" in {found["code"] for found in told["on"]["findings"]}


def test_doctor_sees_every_seam_of_ms_swift_attach():
    done = vlmguard("swift", "doctor", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    found = {each["framework"]["name"]: each for each in told["frameworks"]}
    assert {"ms-swift", "transformers"} <= set(found)
    for each in found.values():
        assert not each["error"]
        lacking = [seam for seam in each["seams"] if seam["state"] != "attached"]
        assert all(seam["optional"] for seam in lacking), lacking
