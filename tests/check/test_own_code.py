"""Scripts without a parser of training arguments: what stands in their own code, or is not here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.check.test_places import ENTRY, FLAGS, LIBRARY, TRANSFORMERS, judged, place  # noqa: F401
from tests.kit.envs import ROOT
from vlmguard.check import script
from vlmguard.check.launcher import Job
from vlmguard.check.reading import python_files, scripts
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import Call
from vlmguard_flagembedding.check import FRAMEWORK as FLAGEMBEDDING
from vlmguard_llamafactory.check import FRAMEWORK as FACTORY

WRITTEN = """
from transformers import Trainer, TrainingArguments
def path(): return "x"
arguments = TrainingArguments({})
Trainer(args=arguments).train()
"""
TWICE = WRITTEN + 'if path(): arguments = TrainingArguments(output_dir="y")\n'


@pytest.fixture
def written(place, tmp_path):  # noqa: F811
    """Puts a script that makes its arguments itself, and judges it on two ranks."""
    place("code", "code/ours/x.py", "")
    (tmp_path / "lib/transformers/__init__.py").write_text(
        "from transformers.training_args import Trainer, TrainingArguments\n"
    )

    def put(text: str):
        (tmp_path / "own.py").write_text(text)
        return judged(f"{LIBRARY} torchrun --nproc_per_node 2 own.py --words_of its_own")

    return put


def test_arguments_that_a_script_writes_itself_are_judged(written):
    verdict = written(WRITTEN.format("output_dir='x', gradient_accumulation_steps=4"))
    assert (verdict.state, verdict.reason, verdict.code(False)) == ("judged", "", 0)
    assert (verdict.run.accumulation, verdict.run.strategy) == (4, "ddp")
    assert not verdict.edits


@pytest.mark.parametrize(
    ("text", "state", "code", "told"),
    [(WRITTEN.format("output_dir=path(), deepspeed=path()"), "judged", 2, "deepspeed"),
     (WRITTEN.format("**path()"), "cannot tell", 2, "in its own code"),
     (TWICE.format(""), "cannot tell", 2, "in its own code"),
     (WRITTEN.format("max_step=3"), "wrong", 1, "'max_step' (did you mean max_steps?)")],
)  # fmt: skip
def test_what_is_not_written_there_is_not_guessed(written, text, state, code, told):
    verdict = written(text)
    assert (verdict.state, verdict.code(False)) == (state, code)
    assert told in " ".join([verdict.reason, *verdict.unread])


def test_a_script_inside_its_package_is_read_as_if_that_were_installed(place):  # noqa: F811
    place("repository", "repository/ours/bin/go.py", ENTRY)
    verdict = judged(f"{LIBRARY} torchrun repository/ours/bin/go.py {FLAGS}")
    assert (verdict.state, verdict.reason) == ("judged", "")
    assert [doubt for doubt in verdict.doubts if doubt.startswith("ours is not installed here")]


@pytest.mark.parametrize(
    ("line", "state"),
    [("from gone.train.loop import train", "cannot tell"), ("import gone.data", "does not train")],
)
def test_a_module_that_trains_and_is_not_here(place, line, state):  # noqa: F811
    place("code", "code/go.py", f"{line}\n")
    verdict = judged(f"{LIBRARY} python code/go.py")
    assert verdict.state == state
    assert ("gone.train.loop, which is not on this disk" in verdict.reason) == (
        state == "cannot tell"
    )


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("from whole.trainer.loop import run", "cannot tell"),
        ("from whole.trainer.names import NAMES", "does not train"),
    ],
)
def test_a_repositorys_own_package_that_is_installed(place, tmp_path, monkeypatch, line, state):  # noqa: F811
    place("code", "code/go.py", f"{line}\n")
    loop = tmp_path / "site/whole/trainer/loop.py"
    loop.parent.mkdir(parents=True)
    loop.write_text("def run(loss): loss.backward()\n")
    (loop.parent / "names.py").write_text("NAMES = ()\n")
    (tmp_path / "site/whole/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert judged("python code/go.py").state == state


def test_the_console_script_and_m_see_the_same(place, tmp_path):  # noqa: F811
    """Python puts the folder where one stands on its path for ``-m``; the script has its own."""
    place("code", "code/go.py", "from whole.trainer.loop import run\nrun()\n")
    (tmp_path / "whole/trainer").mkdir(parents=True)
    (tmp_path / "whole/trainer/loop.py").write_text("def run(): return 1\n")
    paths = os.pathsep.join(map(os.path.abspath, (ROOT, ROOT / "plugins")))
    command = [sys.executable, "-m", "vlmguard", "check", "code/go.py"]
    quiet = {**os.environ, "VLMGUARD": "off", "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=quiet)
    assert "imports whole.trainer.loop, which is not on this disk" in done.stdout, done.stderr
    assert done.returncode == 2


def test_a_python_file_is_what_python_starts(written, tmp_path):
    written(WRITTEN.format("output_dir='x'"))
    reading = script.of_file(str(tmp_path / "own.py"), ["a b"], {"PATH": "/bin"})
    assert [job.target for job in reading.jobs] == [str(tmp_path / "own.py")]
    assert reading.jobs[0].argv == ("a b",)
    assert not reading.refused
    with pytest.raises(OSError, match=r"nothing\.py"):
        script.of_file("nothing.py", [], {})


def test_modules_that_all_import_each_other_are_read_once(place, tmp_path, monkeypatch):  # noqa: F811
    place("code", "code/go.py", "import ours.m0\n")
    for one in range(30):
        lines = [f"from ours.m{other} import a, b, c" for other in range(30)]
        (tmp_path / f"code/ours/m{one}.py").write_text("\n".join(lines))
    asked = []
    real = scripts._local_imports
    monkeypatch.setattr(scripts, "_local_imports", lambda name: asked.append(name) or real(name))
    judged(f"{LIBRARY} python code/go.py")
    assert len(asked) <= scripts.MOST


def test_modules_that_cannot_have_a_name_are_not_parsed(tmp_path, monkeypatch):
    """transformers has two thousand behind stars: a minute for one name."""
    (tmp_path / "many").mkdir()
    (tmp_path / "many/__init__.py").write_text("".join(f"from .m{n} import *\n" for n in range(40)))
    for number in range(40):
        (tmp_path / f"many/m{number}.py").write_text("class Other: ...\n")
    (tmp_path / "many/m30.py").write_text("from many.m31 import First as Wanted\n")
    (tmp_path / "many/m31.py").write_text("class First: ...\n")
    asked = []
    real = python_files.parsed
    monkeypatch.setattr(python_files, "parsed", lambda name: asked.append(name) or real(name))
    python_files.look_beside([str(tmp_path)])
    found = python_files.find("many", "Wanted")
    assert (found.module, found.name) == ("many.m31", "First")
    assert python_files.find("many", "Gone") is None
    assert set(asked) == {"many", "many.m30", "many.m31"}


def test_a_data_file_that_is_not_here_is_named_and_the_rest_is_judged(place, tmp_path):  # noqa: F811
    place("code", "code/go.py", ENTRY)
    arguments = tmp_path / "code/ours/arguments.py"
    arguments.write_text(arguments.read_text() + "    data_path: str = None\n")
    verdict = judged(f"{LIBRARY} torchrun code/go.py --data_path gone.json")
    assert (verdict.state, verdict.code(False)) == ("judged", 2)
    assert verdict.unread == ("gone.json: there is no such data file",)


def job(target: str) -> Job:
    return Job(Call((), {}, ".", 1, "x"), target, (), launched=True)


@pytest.mark.parametrize(("package", "entry"), [("llamafactory", "train"), ("trl", "")])
def test_a_common_name_is_not_enough(place, tmp_path, package, entry):  # noqa: F811
    place("code", "src/train.py", f"import {package}\n")
    assert FACTORY.entry(job("src/train.py"), Files(str(tmp_path))) == entry


def test_only_what_is_known_not_to_train_is_said_not_to():
    assert FLAGEMBEDDING.trains("FlagEmbedding.evaluation.beir")
    assert not FLAGEMBEDDING.trains("FlagEmbedding.finetune.embedder.encoder_only.m3")
    assert not FLAGEMBEDDING.trains("FlagEmbedding.BGE_M3.run")
