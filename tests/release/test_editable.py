"""Each framework from a checkout, as its README says: ``pip install -e .``, and uv's. It is seen
there, and doctor says so. Setuptools builds six of them, hatchling one; uv_build a small one. Other
forms of installation are in test_installed_forms.py."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.kit import runs
from tests.kit.installs import call, layered

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
FRAMEWORKS = {  # release on the index, module that arms its adapter, environment
    "ms-swift": ("ms-swift==4.6.0", "swift", "swift"),
    "TRL": ("trl==1.16.0", "trl", "trl"),
    "LLaMA-Factory": ("llamafactory==0.9.5", "llamafactory", "llamafactory"),
    "FlagEmbedding": ("FlagEmbedding==1.4.2", "FlagEmbedding", "flagembedding"),
    "ColossalAI": ("colossalai==0.5.0", "colossalai", "colossalai"),
    "transformers": ("transformers==5.23.0", "transformers.trainer", "trl"),
    "accelerate": ("accelerate==1.15.0", "accelerate.accelerator", "trl"),
}
BUILDS = {"hatchling": "hatchling.build", "uv_build": "uv_build",
          "setuptools": "setuptools.build_meta"}  # fmt: skip
"""Of ms-swift's name and layout, made here: no framework is built by uv's backend today."""


def checkout(release: str, folder: Path) -> Path:
    """A framework's sources, as they are released."""
    call(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
         "--no-build-isolation", "-d", folder, release,
         env=os.environ | {"BUILD_EXT": "0"})  # fmt: skip
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(each.parent for each in folder.glob("*/PKG-INFO"))


def small(backend: str, folder: Path) -> Path:
    code = folder / "code"
    (code / "src" / "swift" / "cli").mkdir(parents=True)
    for name in ("__init__", "cli/__init__", "cli/sft"):
        (code / "src" / "swift" / f"{name}.py").write_text("")
    more = {"hatchling": '[tool.hatch.build.targets.wheel]\npackages = ["src/swift"]\n',
            "uv_build": '[tool.uv.build-backend]\nmodule-name = "swift"\n'}  # fmt: skip
    (code / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{BUILDS[backend]}"\n'
        '[project]\nname = "ms-swift"\nversion = "9.9"\n' + more.get(backend, "")
    )
    return code


SAY = "import {0}; from vlmguard.runtime import seams; print(*seams.armed, {1}.__file__)"


def seen(env: str, module: str, code: Path, installer: str, tools: Path, folder: Path) -> None:
    package = module.partition(".")[0]
    python = layered(env, package, folder)
    variables = runs.variables(env, folder, True) | {"BUILD_EXT": "0"}
    build = variables | {"PYTHONPATH": str(tools), "PATH": f"{tools / 'bin'}:{variables['PATH']}"}
    flags = ["-q", "--no-deps", "--no-build-isolation", "-e", code]
    if installer == "uv":
        call(tools / "bin" / "uv", "pip", "install", "--python", python, *flags, env=build)
    else:
        call(sys.executable, "-m", "pip", "--python", python, "install", *flags, env=build)
    said = call(python, "-c", SAY.format(module, package), cwd=folder, env=variables).split()
    assert f"vlmguard_{package.lower()}" in said[:-1]
    assert Path(said[-1]).is_relative_to(code)
    doctor = subprocess.run([python, "-m", "vlmguard", "doctor"], cwd=folder, env=variables,
                            capture_output=True, text=True).stdout  # fmt: skip
    assert f"(editable: {code}" in doctor, doctor


@pytest.mark.drawn(1)
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_from_a_checkout_is_seen(framework, installer, tools, tmp_path):
    release, module, env = FRAMEWORKS[framework]
    (tmp_path / "sources").mkdir()
    code = checkout(release, tmp_path / "sources")
    seen(env, module, code, installer, tools, tmp_path)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("backend", BUILDS)
def test_a_checkout_of_each_build_backend_is_seen(backend, installer, tools, tmp_path):
    seen("swift", "swift", small(backend, tmp_path), installer, tools, tmp_path)
