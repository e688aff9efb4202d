from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types

import pytest

from vlmguard import guard, hookimpl, registry
from vlmguard.core import facts, host
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Batch, Failure, Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.host import Host
from vlmguard.rules import RULES
from vlmguard.runtime.faults import fault

RUN = Run("x", {"torch": "2.13.0"}, "ddp", 2, checkpointing=facts.Checkpointing(True, True))


def plugin(code="XY101", **hooks):
    made = types.SimpleNamespace(CODE=code, NAME="x", DEFAULT="fix", __name__=code)
    for name, function in hooks.items():
        setattr(made, name, hookimpl(function))
    return made


def test_only_steps_that_a_rule_judges_are_brought_to_the_rules():
    made = Host(fault)
    made.add(plugin("XY101", pre_step=lambda run, gradients: None))
    rows = plugin("XY102", pre_step=lambda run, batch: Finding("XY102", "note", "heard"))
    rows.ROWS = True
    made.add(rows)
    assert made.asks("x", gradients=True)
    assert made.asks("x", batch=True, rows=True)
    assert not made.asks("x", batch=True)
    assert made.pre_step(RUN, batch=Batch()) == []
    assert made.pre_step(RUN, batch=Batch((facts.Sample(),)))
    other = plugin("XY103", pre_step=lambda run, batch: Finding("XY103", "note", "heard"))
    other.FRAMEWORKS = ("y",)
    made.add(other)
    assert not made.asks("x", batch=True)
    assert made.asks("y", batch=True)


def test_a_rule_that_raises_is_said_once_and_others_are_heard(capsys):
    made = Host(fault)

    def broken(run):
        raise KeyError("boom")

    made.add(plugin("XY101", pre_wrap=broken))
    made.add(plugin("XY102", pre_wrap=lambda run: Finding("XY102", "note", "heard")))
    for _ in range(3):
        assert [f.code for f in made.pre_wrap(RUN)] == ["XY102"]
    said = capsys.readouterr().err
    assert said.count("VG902") == 1
    assert "XY101" in said


@pytest.mark.parametrize("answer", [3, "text", [Finding("XY1", "note", "x"), 3]])
def test_a_wrong_answer_is_a_fault(answer, capsys):
    made = Host(fault)
    made.add(plugin(pre_wrap=lambda run: answer))
    assert made.pre_wrap(RUN) == []
    assert "not a Finding" in capsys.readouterr().err


def test_stop_and_keyboard_interrupt_escape():
    for kind in (Stop, KeyboardInterrupt, SystemExit):
        made = Host(fault)

        def leave(run, kind=kind):
            raise kind("x")

        made.add(plugin(pre_wrap=leave))
        with pytest.raises(kind):
            made.pre_wrap(RUN)


def test_wrappers_and_double_codes_are_refused():
    made = Host(fault)
    made.add(plugin())
    with pytest.raises(ValueError, match="XY101"):
        made.add(plugin())
    with pytest.raises(ValueError, match="no code"):
        made.add(plugin("nonsense"))
    from vlmguard.core.hookspecs import hookimpl as mark

    wrapping = plugin("XY102")

    def around(run):
        return (yield)

    wrapping.pre_wrap = mark(wrapper=True)(around)
    with pytest.raises(TypeError, match="not accepted"):
        made.add(wrapping)


@pytest.mark.parametrize("name", ["CODE", "NAME", "DEFAULT"])
def test_a_rule_that_lacks_something_is_told_what(name):
    lacking = plugin(pre_wrap=lambda run: None)
    delattr(lacking, name)
    with pytest.raises(ValueError, match=f"has no {name}$"):
        Host(fault).add(lacking)


# VG9 is about ourselves, VG406 is said by `agree`, VG61x to VG66x by the ledger: without a hook.
JUDGING = [rule for rule in RULES if any(hasattr(rule, name) for name in host.HOOKS)]


@pytest.mark.parametrize("rule", JUDGING, ids=lambda rule: rule.CODE)
def test_every_rule_may_fail(rule, monkeypatch, capsys):
    """Raise inside each rule in turn: the others are heard, nothing escapes."""
    made = Host(fault)
    for each in RULES:
        made.add(each)
    for caller in made.manager.get_hookcallers(rule):
        for implementation in caller.get_hookimpls():
            if implementation.plugin is rule:

                def boom(*args):
                    raise RuntimeError("boom")

                safe = host.contained(boom, rule.CODE, fault)
                monkeypatch.setattr(implementation, "function", safe, raising=False)
    made.pre_wrap(RUN)
    made.pre_step(RUN, batch=Batch())
    made.pre_step(RUN, gradients=Gradients())
    made.on_error(RUN, None, Failure("x", "y"))
    assert f"rule {rule.CODE} failed" in capsys.readouterr().err


def test_entry_points_load_our_rules():
    assert {rule.CODE for rule in RULES} <= set(registry.get().rules)


def test_our_rules_come_in_without_metadata(tmp_path):
    """From a zip under -S, where no entry point leads to them."""
    from pathlib import Path

    import pluggy

    root = Path(host.__file__).parents[2]
    archive = shutil.make_archive(str(tmp_path / "ours"), "zip", root, "vlmguard")
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("pluggy", "wrapt", "packaging"):
        (libraries / name).symlink_to(Path(pluggy.__file__).parents[1] / name)
    (libraries / "vlmguard_explain").symlink_to(root / "plugins" / "vlmguard_explain")
    code = (
        "import importlib.metadata as m; assert not m.entry_points(group='vlmguard')\n"
        "from vlmguard import registry; print(len(registry.get().rules))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": os.pathsep.join([archive, str(libraries)])},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{len(RULES)}\n", "")


def test_a_remedy_that_does_not_take_stops():
    with pytest.raises(Stop, match="VG903"):
        guard.pre_wrap(lambda: RUN, lambda plan: {"variant": ["nothing"]})


def test_a_fault_while_applying_leaves_the_run(capsys):
    def apply(plan):
        raise OSError("boom")

    assert guard.pre_wrap(lambda: RUN, apply).run == RUN
    assert "applying the plan failed" in capsys.readouterr().err


def test_a_fault_while_translating_leaves_the_run(capsys):
    def translate():
        raise OSError("boom")

    assert guard.pre_wrap(translate, lambda plan: ()) is None
    assert "reading the run failed" in capsys.readouterr().err


def test_a_remedy_that_takes(capsys):
    import dataclasses

    state = {"reentrant": True}

    def translate():
        checkpointing = facts.Checkpointing(True, state["reentrant"])
        return dataclasses.replace(RUN, checkpointing=checkpointing)

    def apply(plan):
        state["reentrant"] = plan.variant.use_reentrant
        return {"variant": ["use_reentrant: True → False"]}

    assert guard.pre_wrap(translate, apply).run.checkpointing.use_reentrant is False
    said = capsys.readouterr().err
    assert "VG101 fixed: use_reentrant: True → False" in said
    assert "VG101=off" in said


def test_known_errors_are_explained_and_unchanged(capsys):
    error = RuntimeError("Expected to mark a variable ready only once.")
    guard.on_error(RUN, None, error)
    assert str(error) == "Expected to mark a variable ready only once."
    told = "".join(getattr(error, "__notes__", [])) or capsys.readouterr().err  # Python 3.10
    assert "VG501" in told
    assert "use_reentrant=False" in told
