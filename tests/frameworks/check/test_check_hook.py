"""The pre-commit hook and the GitHub action: what they type, typed here with the real ms-swift."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit import envs, runs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
GOOD = "echo nothing here trains\n"
BAD = "swift sft --model no-such-model --no_such_flag 3\n"


def read(name: str) -> object:
    """A YAML file of the repository, as PyYAML reads it."""
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
    command = [envs.program("swift"), "-c", code, str(envs.ROOT / name)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def shell(tmp_path):
    """Runs words of bash where a `vlmguard` of this checkout stands on the path."""
    program = tmp_path / "temp" / "vlmguard" / "bin" / "vlmguard"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {envs.program("swift")} -m vlmguard "$@"\n')
    program.chmod(0o755)
    (tmp_path / "good.sh").write_text(GOOD)
    (tmp_path / "bad.sh").write_text(BAD)
    there = os.pathsep.join(
        [str(runs.KIT / "standins"), str(envs.ROOT), str(envs.ROOT / "plugins")]
    )
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])

    def run(words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": there,
            "RUNNER_TEMP": str(tmp_path / "temp"),
        }
        return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", words], cwd=tmp_path,
                              env={**env, **extra}, capture_output=True, text=True, check=False,
                              timeout=120)  # fmt: skip

    return run


def test_the_hook_checks_each_changed_script(shell):
    (hook,) = read(".pre-commit-hooks.yaml")
    assert {"id", "name", "entry", "language"} <= set(hook)
    done = shell(f"{hook['entry']} good.sh bad.sh")
    assert done.returncode == 1, done
    assert "no_such_flag" in done.stdout
    assert "nothing to judge" in done.stdout
    assert shell(f"{hook['entry']} good.sh").returncode == 0


def test_the_action_annotates_the_line(shell):
    action = read("action.yml")
    assert action["runs"]["using"] == "composite"
    check = action["runs"]["steps"][-1]
    told = [value for step in action["runs"]["steps"] for value in step["env"].values()]
    assert sorted(told) == sorted(f"${{{{ inputs.{name} }}}}" for name in action["inputs"])
    done = shell(check["run"], SCRIPTS="*.sh", STRICT="false")
    assert done.returncode == 1, done
    assert done.stdout.startswith("::error file=bad.sh,line=1"), done.stdout
    assert "no_such_flag" in done.stdout
    fine = shell(check["run"], SCRIPTS="good.sh", STRICT="true")
    assert (fine.returncode, fine.stdout) == (0, "")
