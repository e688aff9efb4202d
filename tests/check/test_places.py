"""A script is read as it is launched: its own modules, wherever Python would find them."""

from __future__ import annotations

import pytest

from vlmguard.check import answer, script

TRANSFORMERS = """
from dataclasses import dataclass
class HfArgumentParser: ...
class Trainer: ...
@dataclass
class TrainingArguments:
    output_dir: str = None
    max_steps: int = -1
    gradient_accumulation_steps: int = 1
    deepspeed: str = None
"""
TRAIN = """
import transformers
from dataclasses import dataclass
from ours.arguments import ModelArguments
from ours.trainer import OwnTrainer
@dataclass
class OwnArguments(transformers.TrainingArguments):
    freeze_tower: bool = False
def train():
    parser = transformers.HfArgumentParser((ModelArguments, OwnArguments))
    trainer = OwnTrainer()
"""
ARGUMENTS = """
from dataclasses import dataclass
@dataclass
class ModelArguments:
    model_name_or_path: str = "x"
"""
IGNORES = """
from transformers import Trainer
class OwnTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return model(**inputs).loss
"""
DIVIDES = IGNORES.replace(
    "model(**inputs)", "model(**inputs, num_items_in_batch=num_items_in_batch)"
)
HANDS_ON = IGNORES.replace("model(**inputs).loss", "super().compute_loss(model, inputs)")
ENTRY = "from ours.train import train\ntrain()\n"
ABOVE = "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '..', 'src'))\n"
PARENT = "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent.parent))\n"
JOINED = PARENT.replace(".parent.parent", ".parent.parent / 'src'")
HERE = "import sys\nsys.path.append('code')\n"
LIBRARY = "PYTHONPATH=lib"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """``lib/transformers``, and a function that puts our package somewhere and an entry beside."""
    monkeypatch.chdir(tmp_path)

    def put(home: str, entry: str, text: str, trainer: str = DIVIDES) -> None:
        files = {
            "lib/transformers/__init__.py": "", "lib/transformers/training_args.py": TRANSFORMERS,
            f"{home}/ours/__init__.py": "", f"{home}/ours/train.py": TRAIN,
            f"{home}/ours/arguments.py": ARGUMENTS, f"{home}/ours/trainer.py": trainer, entry: text,
        }  # fmt: skip
        for name, inside in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(inside)

    return put


def judged(words: str):
    (verdict,) = answer.of(script.of_words(words.split(), {"PATH": "/bin"}), {}).verdicts
    return verdict


FLAGS = "--freeze_tower True --max_steps 3"
WAYS = {
    "beside the script": ("code", "code/go.py", ENTRY, f"{LIBRARY} torchrun code/go.py {FLAGS}"),
    "PYTHONPATH": ("src", "code/go.py", ENTRY, f"PYTHONPATH=lib:src python code/go.py {FLAGS}"),
    "-m here": (".", "ours/go.py", ENTRY, f"{LIBRARY} torchrun -m ours.go {FLAGS}"),
    "append": ("src", "code/go.py", ABOVE + ENTRY, f"{LIBRARY} deepspeed code/go.py {FLAGS}"),
    "appended here": ("src", "code/go.py", "import sys\nsys.path.append('src')\n" + ENTRY,
                      f"{LIBRARY} python code/go.py {FLAGS}"),
    "inserted above": (".", "code/go.py", PARENT + ENTRY, f"{LIBRARY} python code/go.py {FLAGS}"),
    "joined with /": ("src", "code/go.py", JOINED + ENTRY, f"{LIBRARY} python code/go.py {FLAGS}"),
    "a file of the package": ("code", "code/ours/go.py", HERE + ENTRY,
                              f"{LIBRARY} torchrun code/ours/go.py {FLAGS}"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_modules_are_found_where_python_finds_them(way, place):
    home, entry, text, words = WAYS[way]
    place(home, entry, text)
    verdict = judged(words)
    assert (verdict.state, verdict.reason) == ("judged", "")
    assert verdict.framework == "transformers"
    refused = judged(words + " --freeze_towr True")
    assert refused.state == "wrong"
    assert "freeze_tower" in refused.reason


PARSE = "    parser = transformers.HfArgumentParser((ModelArguments, OwnArguments))\n"
OFF = "words = sys.argv[1:]\nif words[:1] == ['sft']: words.pop(0)\n"
READS = {
    "all of it": ("", "parse_args_into_dataclasses()", "wrong"),
    "all of it, as a list": ("", "parse_args_into_dataclasses(args=sys.argv[1:])", "wrong"),
    "a list of its own": (OFF, "parse_args_into_dataclasses(words)", "cannot tell"),
    "a list by its name": (OFF, "parse_args_into_dataclasses(args=words)", "cannot tell"),
    "TRL's parser": (OFF, "parse_args_and_config(words)", "cannot tell"),
    "a word less": ("sys.argv.pop(1)\n", "parse_args_into_dataclasses()", "cannot tell"),
    "a word less, by name": ("from sys import argv\nargv.pop(1)\n",
                             "parse_args_into_dataclasses()", "cannot tell"),
    "a word deleted": ("del sys.argv[1]\n", "parse_args_into_dataclasses()", "cannot tell"),
    "a new list": ("sys.argv = sys.argv[:1]\n", "parse_args_into_dataclasses()", "cannot tell"),
    "what is left over": ("", "parse_args_into_dataclasses(return_remaining_strings=True)",
                          "cannot tell"),
}  # fmt: skip


@pytest.mark.parametrize("words", ["sft", "--stage sft"])
@pytest.mark.parametrize("how", READS)
def test_a_word_that_the_script_may_take_itself_is_not_called_wrong(how, words, place, tmp_path):
    before, call, state = READS[how]
    place("code", "code/go.py", f"import sys\n{before}{ENTRY}")
    own = tmp_path / "code/ours/train.py"
    text = own.read_text()
    assert PARSE in text
    own.write_text(text.replace(PARSE, f"{PARSE}    parser.{call}\n"))
    verdict = judged(f"{LIBRARY} python code/go.py {words} {FLAGS}")
    assert verdict.state == state, verdict.reason
    assert verdict.code(False) == (1 if state == "wrong" else 2)
    assert "sft" in verdict.reason
    module = judged(f"PYTHONPATH=lib:code python -m go {words} {FLAGS}")
    assert (module.state, module.reason) == (state, verdict.reason)
    assert judged(f"{LIBRARY} python code/go.py {FLAGS}").state == "judged"


def test_without_its_folder_it_is_not_found(place):
    """The other side: nothing of a package that Python would not find."""
    place("elsewhere", "code/go.py", ENTRY)
    assert judged(f"{LIBRARY} torchrun code/go.py {FLAGS}").state == "cannot tell"


@pytest.mark.parametrize(
    ("module", "state"), [("arguments", "does not train"), ("trainer", "cannot tell")]
)
def test_an_entry_that_starts_nothing_is_looked_at_through_its_modules(place, module, state):
    place("code", "code/go.py", f"import ours.{module}\n")
    assert judged(f"{LIBRARY} python code/go.py").state == state


SETS = "from ours.train import train\ntrain()\ntraining_args.ddp_find_unused_parameters = False\n"


@pytest.mark.parametrize(("text", "flag"), [(ENTRY, True), (SETS, False)])
def test_no_flag_is_advised_that_the_script_sets_itself(place, text, flag, tmp_path):
    place("code", "code/go.py", text)
    arguments = tmp_path / "lib/transformers/training_args.py"
    arguments.write_text(TRANSFORMERS + "    ddp_find_unused_parameters: bool = False\n")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text('{"model_type": "qwen2_vl", "vision_config": {}}')
    words = "--nproc_per_node 2 code/go.py --model_name_or_path m"
    verdict = judged(f"{LIBRARY} torchrun {words}")
    told = [advice for (f, _), advice in zip(verdict.findings, verdict.advice, strict=True)
            if f.code == "VG106"]  # fmt: skip
    assert told
    assert ("--ddp_find_unused_parameters" in told[0]) == flag
    assert flag or "the script itself sets ddp_find_unused_parameters" in told[0]
    assert flag or not [edit for edit in verdict.edits if "find_unused" in edit.flag]


@pytest.mark.parametrize(
    ("trainer", "steps", "told"),
    [(IGNORES, 4, True), (IGNORES, 1, False), (DIVIDES, 4, False), (HANDS_ON, 4, False)],
)
def test_an_own_loss_that_ignores_the_number_of_tokens(place, trainer, steps, told):
    place("code", "code/go.py", ENTRY, trainer)
    verdict = judged(f"{LIBRARY} torchrun code/go.py --gradient_accumulation_steps {steps}")
    assert [f.code for f, _ in verdict.findings if f.code == "VG622"] == ["VG622"] * told


@pytest.mark.parametrize("installed", [False, True])
def test_a_package_without_an_init(place, tmp_path, monkeypatch, installed):
    """``ours`` is a namespace package of ``ours/train``; an installed one comes first."""
    place("code", "code/go.py", "")
    home = tmp_path / "code/ours"
    (home / "train").mkdir()
    for file in home.glob("*.py"):
        file.rename(home / "train" / file.name)
    source = (home / "train/train.py").read_text()
    (home / "train/train.py").write_text(source.replace("ours.", "ours.train."))
    (tmp_path / "code/go.py").write_text("from ours.train.train import train\ntrain()\n")
    if installed:
        (tmp_path / "site/ours").mkdir(parents=True)
        (tmp_path / "site/ours/__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path / "site")
    verdict = judged(f"{LIBRARY} torchrun code/go.py {FLAGS}")
    assert verdict.state == ("cannot tell" if installed else "judged"), verdict.reason


STARTED = {
    "importlib.import_module('ours.train').train()": "cannot tell",
    "__import__('ours.train').train()": "cannot tell",
    "runpy.run_path('ours.py')": "cannot tell",
    "exec(open('ours/train.py').read())": "cannot tell",
    "os.system('swift sft --model x')": "cannot tell",
    "subprocess.run(['torchrun', 'ours.py'], check=True)": "cannot tell",
    "subprocess.run(['ffmpeg', '-i', 'a.mp4'])": "does not train",
    "importlib.import_module(name)": "does not train",
    "cursor.exec(open_it)": "does not train",
}


@pytest.mark.parametrize("line", STARTED)
def test_other_code_that_a_script_starts(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "go.py").write_text(f"import importlib, os, runpy, subprocess\n{line}\n")
    assert judged("python go.py").state == STARTED[line]
