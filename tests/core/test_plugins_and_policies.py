"""Plug-ins that fail, what a digest sees, words of the switch, lines that are said once."""

from __future__ import annotations

import types

import pytest
from typer.testing import CliRunner

from vlmguard import guard, hookimpl, registry
from vlmguard.cli.app import app
from vlmguard.core import runstate
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.host import Host
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import faults, stub
from vlmguard.runtime.faults import fault


class Entry:
    """An installed entry point."""

    def __init__(self, name, plugin=None):
        self.name, self.plugin, self.value = name, plugin, name

    def load(self):
        if self.plugin is None:
            raise ImportError(f"{self.name} is broken")
        return self.plugin


def rule(code, why="heard"):
    made = types.SimpleNamespace(CODE=code, NAME=code.lower(), DEFAULT="warn", __name__=code)
    made.pre_wrap = hookimpl(lambda run: Finding(code, "note", why))
    return made


def loaded(monkeypatch, *entries):
    monkeypatch.setattr(faults, "_said", set())
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: list(entries))
    return registry.load(Host(fault))


def test_a_plugin_that_cannot_be_loaded_is_said_and_others_are_there(monkeypatch, capsys):
    host = loaded(monkeypatch, Entry("broken"), Entry("whole", rule("XY101")))
    assert "XY101" in host.rules
    assert "VG101" in host.rules
    said = capsys.readouterr().err
    assert said.count("VG902") == 1
    assert "third-party plug-in broken failed: ImportError: broken is broken" in said
    assert "tell its author" in said


def raises(run):
    raise KeyError("x")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"DEFAULT": "warning"}, "XY101: DEFAULT 'warning' (did you mean warn?)"),
        ({"pre_stepp": hookimpl(lambda run: None)}, "no hook 'pre_stepp' (did you mean pre_step?)"),
        ({"pre_step": hookimpl(lambda run, batches: None)}, "Argument(s) {'batches'} are declared"),
        ({"CODE": None}, "XY101 has no CODE"),
        ({"pre_wrap": hookimpl(raises)}, "third-party plug-in: rule XY101 failed: KeyError: 'x'"),
    ],
)
def test_an_author_is_told_what_is_wrong_with_a_rule(monkeypatch, capsys, changed, told):
    made = rule("XY101")
    vars(made).update(changed)
    loaded(monkeypatch, Entry("mine", made)).pre_wrap(Run("x"))
    said = capsys.readouterr().err
    assert told in said
    assert "inside vlmguard" not in said


def test_an_unknown_rule_is_no_wall_of_names(capsys):
    done = CliRunner().invoke(app, ["rule", "qqqqqqqq"])
    assert done.exit_code == 2
    assert len(done.output) < 200
    assert "`vlmguard rule` lists all of them" in done.output


def test_of_two_rules_with_one_code_the_first_stays(monkeypatch, capsys):
    first, second = rule("XY101", "first"), rule("XY101", "second")
    host = loaded(monkeypatch, Entry("a", first), Entry("b", second))
    assert host.rules["XY101"] is first
    assert "two rules have the code XY101" in capsys.readouterr().err


def test_the_digest_sees_what_decides():
    digests = {
        Settings().digest,
        Settings({"VG101": "off"}).digest,
        Settings({"VG101": "warn"}).digest,
        Settings({"VG102": "off"}).digest,
        Settings(freeze=("vision",)).digest,
        Settings(dry_step=True).digest,
    }
    assert len(digests) == 6
    assert Settings(report="a.jsonl", sources=("x",)).digest == Settings().digest


@pytest.mark.parametrize(
    ("word", "off"),
    [("0", True), ("false", True), ("no", True), ("off", True), (" OFF ", True),
     ("1", False), ("on", False), ("", False)],
)  # fmt: skip
def test_words_that_switch_off(monkeypatch, word, off):
    monkeypatch.setenv("VLMGUARD", word)
    assert stub.is_off() is off


def test_a_line_is_said_once_and_not_every_step(capsys):
    state = RunState(Settings())
    runstate.opened(state)
    try:
        for _ in range(3):
            guard.judge([Finding("VG203", "warning", "row 3 was replaced")], state)
        guard.judge([Finding("VG203", "warning", "row 4 was replaced")], state)
    finally:
        runstate.closed(state)
    said = capsys.readouterr().err
    assert said.count("row 3") == 1
    assert said.count("row 4") == 1
