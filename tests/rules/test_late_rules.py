"""What stands for a rule until its file is imported says what the file says, of every run."""

from __future__ import annotations

import importlib
import pkgutil
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.rules.test_rules import DDP, IDLE, SILENT, SPEAKS
from vlmguard import registry
from vlmguard.core import host
from vlmguard.core.facts import Gradients
from vlmguard.rules import GEMINI, LATE
from vlmguard_colossalai import rules as of_colossalai

CONSTANTS = ("CODE", "NAME", "DEFAULT", "PHASES", "ROWS", "FRAMEWORKS")
RUNS = [case[1] for case in (*SPEAKS, *SILENT)]
FIELDS = ("strategy", "checkpointing", "towers", "forwards", "shared", "repeats", "find_unused",
          "static_graph", "accumulation", "clipping", "freeze", "unfrozen", "missing_seams",
          "lost_seams", "overscaled", "router_loss", "experts", "per_image", "generates", "phase",
          "releases", "world", "empty_group", "may_be_unused", "never_used", "cut_off",
          "text_skips")  # fmt: skip


def drawn(number):
    """Runs whose facts are each that of some run in the tables."""
    rng = random.Random(7)
    for _ in range(number):
        yield replace(DDP, **{name: getattr(rng.choice(RUNS), name) for name in FIELDS})


@pytest.mark.parametrize("rule", [*LATE, *GEMINI], ids=lambda rule: rule.CODE)
def test_it_says_of_the_rule_what_the_file_says(rule):
    file = importlib.import_module(rule.module)
    told = [{name: getattr(each, name, None) for name in CONSTANTS} for each in (rule, file)]
    assert told[0] == told[1]
    assert rule.__doc__ == file.__doc__
    hooks = [[name for name in host.HOOKS if hasattr(each, name)] for each in (rule, file)]
    assert hooks[0] == hooks[1]


@pytest.mark.parametrize("rule", [each for each in LATE if hasattr(each, "pre_wrap")],
                         ids=lambda rule: rule.CODE)  # fmt: skip
def test_no_run_that_the_rule_speaks_of_is_kept_from_it(rule):
    file = importlib.import_module(rule.module)
    runs = [*RUNS, *drawn(4000)]
    answers = [file.pre_wrap(run) for run in runs]
    assert [rule.pre_wrap(run) for run in runs] == answers
    assert any(answers), "no run in the tables has it speak"


def test_no_file_of_colossalai_is_left_out():
    prefix = f"{of_colossalai.__name__}."
    files = {each.name for each in pkgutil.iter_modules(of_colossalai.__path__, prefix)}
    assert files == {rule.module for rule in GEMINI}


SEEN = [
    Gradients(stale=("vision",)),
    Gradients({"vision": ("a",)}, {"vision": 1}, {"vision": "cut"}, steps=2),
    Gradients({"vision": ("a",)}, {"vision": 2}, stale=("llm",)),
    Gradients(),
    None,
]


@pytest.mark.parametrize("code", ["VG204", "VG302"])
def test_no_gradients_that_the_rule_speaks_of_are_kept_from_it(code):
    rule = next(each for each in LATE if code == each.CODE)
    file = importlib.import_module(rule.module)
    answers = [file.pre_step(run, seen) or None for run in (*RUNS, IDLE) for seen in SEEN]
    assert [rule.pre_step(run, seen) or None for run in (*RUNS, IDLE) for seen in SEEN] == answers
    assert any(answers)


@pytest.mark.parametrize("name", sorted(registry.WRAP))
def test_an_adapter_that_is_left_to_the_watcher_has_no_rule(name):
    adapter = importlib.import_module(name)
    assert isinstance(adapter.SEAMS, tuple)
    assert not [each for each in dir(adapter) if each in (*host.HOOKS, "RULES", "CODE")]


def test_a_healthy_run_imports_no_rule():
    code = (
        "import sys; from vlmguard import registry; from vlmguard.core.facts import *;"
        "run = Run('transformers', {'torch': '2.13.0'}, 'ddp', 2, find_unused=True);"
        "registry.get().pre_wrap(run);"
        "print(*sorted(m for m in sys.modules if m.startswith('vlmguard.rules.vg')))"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    found = [name.rpartition(".")[2][:5] for name in done.stdout.split()]
    assert found == [], f"a rule of ours needs a line in LATE (vlmguard/rules): {done.stderr}"
