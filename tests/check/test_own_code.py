"""Scripts without a parser of training arguments: what stands in their own code, or is not here."""

from __future__ import annotations

import pytest

from tests.check.test_places import ENTRY, FLAGS, LIBRARY, TRANSFORMERS, judged, place  # noqa: F401
from vlmguard.check.launcher import Job
from vlmguard.check.reading import scripts
from vlmguard.check.reading.files import Files
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
