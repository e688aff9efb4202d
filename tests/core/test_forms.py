"""A framework is seen in whatever form it was installed, and its modules stay as without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

from tests.kit import envs
from vlmguard.cli import doctor, probe

SHOW = "from vlmguard.runtime import seams; print(seams.armed, swift.f(1), swift.cli.sft.f(1));"
SAME = """
import importlib.util, pickle, types
kinds = [type(m.__spec__.loader).__name__ == type(m.__loader__).__name__ != '_Loader' for m in
         (swift, swift.cli.sft)]
print(kinds, importlib.reload(swift.cli.sft).f(1), swift.cli.sft.__loader__.__class__.__module__)
"""


@pytest.fixture
def checkout(tmp_path):
    """An ms-swift with a seam in the package itself and one in a submodule, and its adapter."""
    (tmp_path / "code" / "swift" / "cli").mkdir(parents=True)
    for name in ("__init__", "cli/__init__", "cli/sft"):
        (tmp_path / "code" / "swift" / f"{name}.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "code" / "swift" / "__init__.py").open("a").write("__version__ = '9.9'\n")
    (tmp_path / "ours").mkdir()
    seams = "tuple(Seam(t, (t,), lambda w, i, a, k: w(*a, **k) + 1, 'why') for t in %r)"
    (tmp_path / "ours" / "vlmguard_swift.py").write_text(
        "from vlmguard.runtime.seams import Seam\n"
        f"SEAMS = {seams % (('swift:f', 'swift.cli.sft:f'),)}\n"
    )
    return tmp_path


SETUPTOOLS = """
import sys
from importlib.util import spec_from_file_location
from pathlib import Path
class Finder:  # as setuptools generates it: the class itself stands in sys.meta_path
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == 'swift':
            return spec_from_file_location(name, Path({code!r}, 'swift', '__init__.py'))
sys.meta_path.{put}
"""
OLD = """
import sys
from importlib.machinery import SourceFileLoader
class Finder:  # without find_spec, as six had one: for Python 3.10 and 3.11
    @classmethod
    def find_module(cls, name, path=None):
        if name == 'swift':
            loader = SourceFileLoader(name, {code!r} + '/swift/__init__.py')
            return loader
sys.meta_path.{put}
"""


def start(folder, code, *path, **env):
    """A Python that is armed by its ``sitecustomize``, then by what ``code`` puts in."""
    (folder / "ours" / "sitecustomize.py").write_text("import vlmguard.auto\n")
    search = [*path, folder / "ours", *(envs.SOURCES or (envs.ROOT, envs.ROOT / "plugins"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search)), **env}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment,
                          capture_output=True, text=True)  # fmt: skip


FORMS = {
    "setuptools' finder": (SETUPTOOLS, "append(Finder)"),
    "a finder that came later and stands before us": (SETUPTOOLS, "insert(0, Finder)"),
    "a finder of old": (OLD, "append(Finder)"),
}


@pytest.mark.parametrize("form", FORMS)
def test_whoever_finds_it(form, checkout):
    if form.endswith("of old") and sys.version_info >= (3, 12):
        pytest.skip("Python asks no such finder any more")
    finder, put = FORMS[form]
    code = finder.format(code=str(checkout / "code"), put=put) + "import swift, swift.cli.sft, this"
    done = start(checkout, f"{code}\n{SHOW}\n{SAME}")
    assert done.stdout.splitlines()[-2] == "['vlmguard_swift'] 2 2", done.stderr
    assert done.stdout.splitlines()[-1] == "[True, True] 2 _frozen_importlib_external"


def test_in_a_zip(checkout):
    with zipfile.ZipFile(checkout / "all.zip", "w") as archive:
        for file in (checkout / "code").rglob("*.py"):
            archive.write(file, file.relative_to(checkout / "code"))
    done = start(checkout, f"import swift, swift.cli.sft\n{SHOW}\n{SAME}", checkout / "all.zip")
    assert done.stdout == "['vlmguard_swift'] 2 2\n[True, True] 2 zipimport\n", done.stderr


LOOK = """
import importlib.util, pickle
from importlib.machinery import SourceFileLoader
import swift
spec = importlib.util.find_spec('swift.cli.sft')
print(isinstance(spec.loader, SourceFileLoader), type(pickle.loads(pickle.dumps(spec.loader))))
lazy = importlib.util.LazyLoader(spec.loader)
spec.loader = lazy
module = importlib.util.module_from_spec(spec)
lazy.exec_module(module)
print(type(module).__name__, module.f(1), type(module.__spec__.loader))
import runpy
print(runpy.run_module('swift.cli.sft')['f'](1))
import sys, pkgutil, importlib.resources
print([m.name for m in pkgutil.walk_packages(swift.__path__, 'swift.')])
print(importlib.resources.files('swift.cli').joinpath('sft.py').is_file())
"""


def test_who_looks_before_the_import_meets_the_modules_own_loader(checkout):
    done = start(checkout, LOOK, checkout / "code")
    without = start(checkout, LOOK, checkout / "code", VLMGUARD="off")
    assert done.stderr == without.stderr == ""
    said = done.stdout.splitlines()
    assert said[0] == "True <class '_frozen_importlib_external.SourceFileLoader'>"
    assert said[1].startswith("_LazyModule 1 "), "of a module that is in nobody's hands but its own"
    assert said[2:] == ["1", "['swift.cli', 'swift.cli.sft']", "True"]


def test_a_framework_that_is_only_asked_for_arms_nothing(tmp_path):
    code = "import importlib.util as u; print(u.find_spec('colossalai')); "
    code += "import sys; sys.modules['trl'] = None; import vlmguard.auto; "
    code += "from vlmguard.runtime import seams; print(seams.armed)"
    (tmp_path / "ours").mkdir()
    assert start(tmp_path, code).stdout == "None\n[]\n"


def told(monkeypatch, folder, *path):
    """What ``vlmguard doctor`` would find in such a Python."""
    search = [*path, folder / "ours", *(envs.SOURCES or (envs.ROOT, envs.ROOT / "plugins"))]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, search)))
    (folder / "ours" / "sitecustomize.py").write_text("import vlmguard.auto\n")
    monkeypatch.chdir(folder)
    begun = probe.start()
    found = next((each for each in begun.frameworks if each.package == "swift"), None)
    seen = [probe.attach(found)] if found else []
    return "\n".join(doctor.text(doctor.Report(False, begun, "", {}, seen, {"digest": "x", "sources": [], "rules": {}})))  # fmt: skip  # noqa: E501


def test_doctor_names_release_place_and_form(checkout, monkeypatch):
    code = checkout / "code"
    text = told(monkeypatch, checkout, code)
    assert f"swift 9.9 (on PYTHONPATH or --target: {code}): 2 of 2 seams" in text
    assert "not installed here: " in text
    info = code / "ms_swift-9.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ms-swift\nVersion: 9.8\n")
    (info / "top_level.txt").write_text("swift\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": code.as_uri(), "dir_info": {"editable": True}})
    )
    text = told(monkeypatch, checkout, code)
    assert f"ms-swift 9.9 (editable: {code}) (its metadata say 9.8: install it again)" in text
    (code / "swift" / "cli" / "sft.py").unlink()
    assert f"swift in {code}: another package of that name, left alone" in told(
        monkeypatch, checkout, code
    )


@pytest.mark.parametrize(
    ("version", "metadata", "told"),
    [
        ("2.5.1+cu124", "2.5.1", False),  # a torch of the index: only its code names the build
        ("2.13.0", "2.13.0+cpu", False),
        ("2.13.0+cu130", "2.13.0+cpu", True),
        ("2.5.1+cu124", "2.5.0", True),
        ("4.6", "4.6.0", False),
    ],
)
def test_doctor_tells_metadata_of_another_release_and_not_of_another_build(version, metadata, told):
    framework = probe.Framework("torch", "vlmguard_torch", "torch", metadata)
    assert ("metadata" in doctor._named(probe.Attached(framework, version=version))) is told


def test_doctor_says_so_where_an_import_is_not_seen():
    framework = probe.Framework("swift", "vlmguard_swift", "ms-swift", "9.9")
    report = doctor.Report(
        False, probe.Start(True), "", {}, [probe.Attached(framework, unseen=True)]
    )
    report.settings = {"digest": "x", "sources": [], "rules": {}}
    assert not report.well
    assert "ms-swift 9.9: NOT GUARDED" in "\n".join(doctor.text(report))


THREADS = """
import importlib, sys, threading
sys.setswitchinterval(1e-6)
found = []
def get():
    importlib.import_module('swift.cli.sft')
    found.append(sys.modules['swift'].f(1) + sys.modules['swift.cli.sft'].f(1))
threads = [threading.Thread(target=get) for _ in range(16)]
[each.start() for each in threads]
[each.join(20) for each in threads]
print(found == [4] * 16)
"""


def test_threads_that_import_it_at_once(checkout):
    code = SETUPTOOLS.format(code=str(checkout / "code"), put="append(Finder)")
    done = start(checkout, code + THREADS)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_folder_without_init_is_a_namespace_as_ever(checkout):
    (checkout / "code" / "swift" / "__init__.py").unlink()
    (checkout / "code" / "swift" / "cli" / "sft.py").unlink()
    code = "import swift, swift.cli; print(type(swift.__path__).__name__, swift.__file__); "
    code += "from vlmguard.runtime import seams; print(seams.armed)"
    done = start(checkout, code, checkout / "code")
    assert (done.stdout, done.stderr) == ("_NamespacePath None\n[]\n", "")


def test_metadata_are_believed_of_the_copy_that_is_imported(checkout, monkeypatch):
    """An installed release may be hidden by a checkout on PYTHONPATH."""
    from vlmguard.cli import installed
    from vlmguard.runtime import definitions

    site, code = checkout / "site", checkout / "code"
    (site / "trl").mkdir(parents=True)
    (code / "trl").mkdir()
    for folder in (site, code):
        (folder / "trl" / "__init__.py").write_text("")
    info = site / "trl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    assert installed.of("trl", definitions.find("trl"))["release"] == "1.0"
    monkeypatch.setattr(sys, "path", [str(code), str(site)])
    told = installed.of("trl", definitions.find("trl"))
    assert (told["release"], told["place"]) == ("", str(code))
    assert "it hides trl 1.0" in told["how"]
