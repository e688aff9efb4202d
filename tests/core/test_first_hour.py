"""A new user's first commands, from a wheel that was unpacked where Python reads no .pth file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit import envs
from vlmguard import __version__, registry
from vlmguard.cli import doctor, probe
from vlmguard.cli.app import app
from vlmguard.cli.compat import strategies_like

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, unpacked: what ``pip install --target`` leaves."""
    out = tmp_path_factory.mktemp("wheel")
    code = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, capture_output=True,
                          text=True, check=True)  # fmt: skip
    with zipfile.ZipFile(out / done.stdout.split()[-1]) as packed:
        packed.extractall(out / "site")
    return out / "site"


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


@pytest.fixture
def target(wheel, bare, tmp_path):
    """A function that runs the wheel's vlmguard as ``python -m vlmguard WORDS``."""
    needs = next(p for p in sys.path if p.endswith("site-packages"))

    def run(*words, flags=(), path=(), **more):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **more}
        env["PYTHONPATH"] = os.pathsep.join(map(str, [*path, wheel, needs]))
        command = [str(bare), *flags, "-m", "vlmguard", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


def ask(*words):
    return CliRunner().invoke(app, [*words])


def framework(folder):
    """An ms-swift that holds one of the places that its adapter wraps."""
    for name in ("swift", "swift/cli", "swift/trainers"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("")
    (folder / "swift" / "cli" / "sft.py").write_text("")
    (folder / "swift" / "trainers" / "mixin.py").write_text(
        "class SwiftMixin:\n    def train(self):\n        pass\n"
    )


def test_doctor_says_where_nothing_is_armed_and_how_to_arm(target, tmp_path):
    framework(tmp_path)
    done = target("doctor", path=[tmp_path])
    assert done.returncode == 1, done.stderr
    assert "armed: NO. vlmguard lies in" in done.stdout
    assert "vlmguard run -- swift sft" in done.stdout
    assert "import vlmguard.auto" in done.stdout
    assert f"swift of unknown release (on PYTHONPATH or --target: {tmp_path}): 1 of" in done.stdout
    assert "collate: NOT THERE, so not guarded" in done.stdout


BROKEN = """try:
    raise RuntimeError('operator torchvision::nms does not exist')
except RuntimeError as error:
    raise ModuleNotFoundError('Could not import module X. Are its requirements there?') from error
"""


def test_a_framework_that_cannot_be_imported_is_named_with_the_reason(target, tmp_path):
    framework(tmp_path)
    (tmp_path / "swift" / "trainers" / "mixin.py").write_text(BROKEN)
    (tmp_path / "swift" / "pipelines.py").write_text(BROKEN)
    reason = "RuntimeError: operator torchvision::nms does not exist"
    done = target("doctor", path=[tmp_path])
    assert f"swift train: CANNOT BE IMPORTED: swift.trainers.mixin: {reason}" in done.stdout
    tried = target("selftest", "--framework", "swift", path=[tmp_path])
    assert tried.returncode == 1
    assert tried.stderr.strip().endswith(f"swift cannot be imported here: {reason}"), tried.stderr


def test_selftest_says_what_is_missing(target):
    done = target("selftest", "--framework", "swift")
    assert done.returncode == 2
    assert "selftest: swift is not installed here" in done.stderr


def test_doctor_sees_that_s_reads_no_pth(target):
    told = json.loads(target("doctor", "--json", flags=["-S"]).stdout)
    assert told["armed"] is False
    assert "-S" in told["problem"]


def test_doctor_sees_an_armed_python_and_off(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    told = doctor.look()
    assert told.armed
    assert told.start.in_place
    assert "switched off" in "\n".join(doctor.text(told))


def test_doctor_lists_the_profiles_that_only_entry_points_name(tmp_path, monkeypatch):
    told = tmp_path / "fake-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[vlmguard.profiles]\nfake = not_here.profile:Fake\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor._profiles() == ["fake (not_here.profile:Fake)"]
    report = doctor.Report(False, probe.Start(True), "", {}, profiles=doctor._profiles(),
                           settings={"digest": "x", "sources": [], "rules": {}})  # fmt: skip
    line = "profiles of other packages: fake (not_here.profile:Fake)"
    assert line in list(doctor.text(report))


def test_doctor_shows_a_bad_setting_whole(monkeypatch, tmp_path):
    (tmp_path / "vlmguard.toml").write_text('[rules]\nVG1O1 = "of"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "start", lambda: probe.Start(True))
    done = ask("doctor")
    assert done.exit_code == 2
    last = done.output.strip().splitlines()[-1]
    assert last.startswith("settings cannot be read: vlmguard.toml")
    assert "did you mean" in last


def test_doctor_names_every_default_that_changed():
    releases = {"transformers": "5.23.0", "deepspeed": "0.19.8"}
    changed = [vars(each) for each in doctor._changed(releases)]
    told = doctor.Report(False, probe.Start(True), "", releases, defaults=changed)
    told.settings = {"digest": "x", "sources": [], "rules": {}}
    lines = [line for line in doctor.text(told) if " and later: " in line]
    assert len(lines) == len(changed) >= 3
    assert "clipping norm" in lines[-1]
    assert "1.0 (before: 0.0)" in lines[-1]


def test_run_arms_what_it_starts_and_keeps_the_users_sitecustomize(target, bare, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("print('mine')")
    code = "import sys; b = sys.modules.get('vlmguard._bootstrap'); "
    code += "print(b is not None and b._watcher in sys.meta_path)"
    done = target("run", "--", str(bare), "-c", code, path=[tmp_path / "mine"])
    assert done.stdout.splitlines()[-2:] == ["mine", "True"], done.stderr
    assert done.returncode == 0
    gone = target("run", "--", "no-such-program")
    assert gone.returncode == 127
    assert "no-such-program" in gone.stderr


def test_run_goes_on_unguarded_where_there_is_no_vlmguard(bare, tmp_path):
    shim = ROOT / "vlmguard" / "_run"
    env = {"PYTHONPATH": str(shim)}
    done = subprocess.run([bare, "-c", "print(3)"], env=env, capture_output=True, text=True)
    assert done.stdout == "3\n"
    assert "is not guarded" in done.stderr


def test_the_lab_of_a_wheel_says_where_it_went(target):
    done = target("lab", "run", "--env", "newest")
    assert done.returncode == 2
    assert "python -m tools.lab" in done.stderr


def test_tables_in_a_folder_of_the_users_are_asked(target, wheel, tmp_path):
    shutil.copytree(wheel / "vlmguard" / "_compat", tmp_path / "tables")
    words = ["compat", "--strategy", "zero3", "--torch", "2.6", "--deepspeed", "0.16.9"]
    there = {"VLMGUARD_TABLES": str(tmp_path / "tables")}
    assert target(*words, **there).stdout == target(*words).stdout
    assert "compatibility table" in target(*words, VLMGUARD_TABLES=str(tmp_path / "nowhere")).stderr


def test_the_release_and_help(target):
    assert ask("--version").output == f"vlmguard {__version__}\n"
    assert target("--version").stdout == f"vlmguard {__version__}\n"


def test_a_rule_by_code_name_or_family():
    codes = sorted(registry.get().rules)
    listed = [line.split()[0] for line in ask("rule").output.splitlines()[1:]]
    assert listed == codes
    family = [line.split()[0] for line in ask("rule", "vg1").output.splitlines()[1:]]
    assert family == [code for code in codes if code.startswith("VG1")]
    assert ask("rule", "reentrant-ddp").output == ask("rule", "VG101").output
    assert "Use instead" in ask("rule", "VG101").output
    every = ask("rule", "--all").output
    assert all(f"{code} " in every for code in codes)
    assert [row["code"] for row in json.loads(ask("rule", "--json").output)] == codes
    missing = ask("rule", "VG1O1")
    assert missing.exit_code == 2
    assert "did you mean VG101?" in missing.output


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("deepspeed", ("zero1", "zero2", "zero3")),
        ("ZeRO-3", ("zero3",)),
        ("deepspeed_stage2", ("zero2",)),
        ("fsdp", ("fsdp2",)),
        ("zeor3", ()),
    ],
)
def test_what_is_meant_by_a_strategy(word, meant):
    assert strategies_like(word) == meant


def test_compat_for_another_program():
    words = ["--strategy", "zero3", "--torch", "2.6", "--deepspeed", "0.16.9", "--json"]
    told = json.loads(ask("compat", *words).output)
    assert told["verdict"] == "works"
    assert told["use_reentrant"] is False
    assert told["asked"]["releases"] == {"torch": "2.6", "deepspeed": "0.16.9"}


def test_an_environment_names_the_pythons_that_it_takes(monkeypatch):
    monkeypatch.delenv("VLMGUARD_ANY_PYTHON", raising=False)
    with pytest.raises(SystemExit, match=r"this is Python 3\.14.*pinned for Python 3\.11"):
        envs.check_python((3, 14))
    envs.check_python((3, 11))


def others():
    """Other Pythons that are on PATH or were installed by pyenv, and that start."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(10, 17):
        name = f"python3.{minor}"
        found = [shutil.which(name), *map(str, sorted(home.glob(f"3.{minor}.*/bin/{name}")))]
        starts = [
            p for p in found if p and not subprocess.run([p, "-V"], capture_output=True).returncode
        ]
        if minor != sys.version_info[1] and starts:
            yield starts[0]


OTHERS = list(others())


@pytest.mark.skipif(not OTHERS, reason="no other Python 3.10 - 3.16 was found")
@pytest.mark.parametrize("python", OTHERS or ["none"])
def test_the_wheel_is_imported_by_other_pythons(python, wheel):
    code = "import vlmguard.auto, vlmguard; print(vlmguard.__version__)"
    done = subprocess.run([python, "-c", code], env={"PYTHONPATH": str(wheel)},
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == __version__, done.stderr
