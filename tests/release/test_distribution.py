"""What goes on an index: the distributions, and what each extra brings where pip resolves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from vlmguard.core.settings import read_toml

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
EXTRAS = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
BRINGS = {
    "swift": {"ms-swift": "4.6.0"},
    "trl": {"trl": "1.16.0"},
    "llamafactory": {"llamafactory": "0.9.5"},
    "flagembedding": {"FlagEmbedding": "1.4.2"},
    "colossalai": {"colossalai": "0.5.0"},
    "deepspeed": {"deepspeed": "0.19.8"},
}
"""Extra → the oldest release that it may bring into an empty environment."""


def resolved(*wanted):
    """What pip would install, or None and its last words."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed",
         "--report", "-", *wanted],
        capture_output=True, text=True, env={**os.environ, "DS_BUILD_OPS": "0"},
    )  # fmt: skip
    if done.returncode:
        return None, done.stderr[-2000:]
    rows = json.loads(done.stdout)["install"]
    return {name(row["metadata"]["name"]): row["metadata"]["version"] for row in rows}, ""


def name(word):
    return word.lower().replace("_", "-")


@pytest.fixture(scope="session")
def index():
    found, words = resolved("pluggy")
    if found is None:
        pytest.skip(f"NOT TESTED: pip reaches no package index: {words[-300:]}")


@pytest.mark.drawn(2)  # pip reads the metadata of hundreds of releases for each
@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_each_extra_resolves_to_what_works(extra, index):
    from packaging.version import Version

    found, words = resolved(*EXTRAS[extra])
    assert found is not None, words
    for package, oldest in BRINGS.get(extra, {}).items():
        assert Version(found[name(package)]) >= Version(oldest)


def test_colossalai_beside_a_newer_torch_is_a_conflict_and_no_silent_step_back(index):
    found, words = resolved(*EXTRAS["colossalai"], "torch==2.13.0")
    assert found is None
    assert "colossalai" in words


def test_the_sdist_holds_what_builds_the_wheel_and_the_wheel_holds_no_tests(tmp_path):
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (sdist,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(sdist) as packed:
        names = {member.partition("/")[2] for member in packed.getnames()}
    assert {"compat/verdicts.toml", "vlmguard/_startup/vlmguard.pth", "SECURITY.md"} <= names
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "vlmguard.pth" in names
    assert "vlmguard/_run/sitecustomize.py" in names
    assert not [each for each in names if each.startswith(("tests/", "examples/"))]
