"""Each framework in each form in which users install it: it is seen where it is imported from, its
adapter is armed and wraps what it wraps (LLaMA-Factory's and FlagEmbedding's wrap nothing of their
own), and doctor names the form. The frameworks are those of our environments,
packed anew: editable by three build backends, on PYTHONPATH, in a zip, with ``--target``, in an
environment over another Python."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.kit import installs, runs
from tests.kit.turns import turn

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
FRAMEWORKS = {  # its distribution → package, environment
    "ms-swift": ("swift", "swift"),
    "trl": ("trl", "trl"),
    "llamafactory": ("llamafactory", "llamafactory"),
    "FlagEmbedding": ("FlagEmbedding", "flagembedding"),
    "colossalai": ("colossalai", "colossalai"),
    "transformers": ("transformers", "trl"),
    "accelerate": ("accelerate", "trl"),
}
BACKENDS = {
    "setuptools": ("setuptools.build_meta", ".", '[tool.setuptools]\npackages = ["{0}"]\n'),
    "hatchling": ("hatchling.build", "src",
                  '[tool.hatch.build.targets.wheel]\npackages = ["src/{0}"]\n'),
    "uv_build": ("uv_build", "src", '[tool.uv.build-backend]\nmodule-name = "{0}"\n'),
}  # fmt: skip
"""Of each its hook, the folder of the package, what it is told. Setuptools' flat layout leaves a
finder of its own; the others leave a path."""
ABSENT = {
    "galore_torch/__init__.py": "import torch; GaLoreAdafactor = GaLoreAdamW = torch.optim.Adam",
    "bitsandbytes/__init__.py": "",
    "bitsandbytes/optim/__init__.py": "",
    "bitsandbytes/optim/optimizer.py": "import torch; Optimizer2State = torch.optim.Optimizer",
}
"""ColossalAI imports two packages of optimizers that its environment lacks; they stand in."""
UNABLE = {("transformers", "zip"): "cannot be imported here: NotADirectoryError"}
"""transformers lists its own folders, so no zip of it can be imported; doctor says so."""
LOOK = """
import sys
from vlmguard.cli import doctor, probe
begun = probe.start()
for each in begun.frameworks:
    if each.package.partition(".")[0] == sys.argv[1]:
        seen = probe.attach(each)
        report = doctor.Report(False, begun, "", {}, [seen])
        report.settings = {"digest": "x", "sources": [], "rules": {}}
        print("WELL" if report.well else "NOT WELL", begun.in_place, len(seen.seams))
        print(seen.error, [seam for seam in seen.seams if seam.lost])
        print("\\n".join(doctor.text(report)))
"""
"""`vlmguard doctor` for one framework, which saves the imports of the others."""


def release(env: str, distribution: str) -> str:
    found = metadata.distributions(name=distribution, path=[str(installs.packages(env))])
    return next(iter(found)).version


def editable(backend: str, framework: str, folder: Path, tools: Path):
    package, env = FRAMEWORKS[framework]
    hook, where, more = BACKENDS[backend]
    code = folder / "code"
    installs.copied(env, package, code / where)
    (code / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{hook}"\n'
        f'[project]\nname = "{framework}"\nversion = "{release(env, framework)}"\n'
        + more.format(package)
    )
    python = installs.layered(env, package, folder)
    around = runs.variables(env, folder, False)
    around |= {"PYTHONPATH": str(tools), "PATH": f"{tools / 'bin'}:{around['PATH']}"}
    flags = ("-q", "--no-deps", "--no-build-isolation", "-e", code)
    if backend == "uv_build":
        words = (tools / "bin" / "uv", "pip", "install", "--python", python)
    else:
        words = (sys.executable, "-m", "pip", "--python", python, "install")
    installs.call(*words, *flags, env=around)
    return python, "", f"editable: {code / where}".removesuffix("/.")


def on_path(framework: str, folder: Path, tools: Path):
    package, env = FRAMEWORKS[framework]
    installs.copied(env, package, folder / "code")
    return installs.layered(env, package, folder), folder / "code", "on PYTHONPATH or --target"


def in_a_zip(framework: str, folder: Path, tools: Path):
    python, code, _ = on_path(framework, folder, tools)
    archive = installs.archived(code, folder / "all.zip")
    shutil.rmtree(code)
    return python, archive, "in a zip"


def target(framework: str, folder: Path, tools: Path):
    package, env = FRAMEWORKS[framework]
    name = f"{framework.lower().replace('-', '_')}-{release(env, framework)}"
    told = [Path(f"{name}.dist-info", each) for each in ("METADATA", "WHEEL", "RECORD")]
    installs.copied(env, package, folder / "built")
    wheel = installs.archived(
        folder / "built", folder / f"{name}-py3-none-any.whl",
        **{str(each): installs.packages(env) / each for each in told},
    )  # fmt: skip
    flags = ("-q", "--no-deps", "--no-index", "--no-compile", "--target", folder / "there")
    installs.call(sys.executable, "-m", "pip", "install", *flags, wheel)
    return installs.layered(env, package, folder), folder / "there", "on PYTHONPATH or --target"


def below(framework: str, folder: Path, tools: Path):
    _, env = FRAMEWORKS[framework]
    return installs.below(env, folder), "", "in the Python below this environment"


FORMS = {
    **{f"{each} editable": lambda *given, each=each: editable(each, *given) for each in BACKENDS},
    "PYTHONPATH": on_path, "zip": in_a_zip, "--target": target, "layered": below,
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_is_seen_in_each_form(framework, form, tools, tmp_path):
    python, path, how = FORMS[form](framework, tmp_path, tools)
    package, env = FRAMEWORKS[framework]
    for name, text in ABSENT.items() if env == "colossalai" else ():
        (tmp_path / "absent" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "absent" / name).write_text(text)
    around = runs.variables(env, tmp_path, True)
    found = (around["PYTHONPATH"], str(tmp_path / "absent"), str(path))
    around["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    with turn():
        said = installs.call(python, "-c", LOOK, package, cwd=tmp_path, env=around)
    print(said)
    assert f"({how}" in said
    unable = UNABLE.get((framework, form))
    assert unable in said if unable else said.startswith("WELL True"), said
