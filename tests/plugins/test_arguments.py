from __future__ import annotations

import os
import sys

import pytest

from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard_transformers import arguments
from vlmguard_transformers.arguments import take


def parsed(argv, given=True):
    seen = {}

    def wrapped(args=None, **kwargs):
        seen["args"] = args
        return "parsed"

    if given:
        arguments.parse(wrapped, None, (argv,), {})
    else:
        arguments.parse(wrapped, None, (), {"return_remaining_strings": True})
    return seen["args"]


def test_takes_its_flags_and_leaves_the_rest():
    argv = [
        "--model",
        "x",
        "--vlmguard",
        "VG101=off",
        "VG2=warn",
        "--lr",
        "1",
        "--vlmguard_freeze",
        "vision",
        "llm",
        "--a",
    ]
    taken = take([*argv, "--vlmguard=VG3=error"])
    assert taken.rest == ["--model", "x", "--lr", "1", "--a"]
    assert taken.rules == ["VG101=off", "VG2=warn", "VG3=error"]
    assert taken.freeze == ["vision", "llm"]


def test_settings_are_in_force_after_parsing():
    assert parsed(["--lr", "1", "--vlmguard", "VG101=False", "--vlmguard-freeze", "none"]) == [
        "--lr",
        "1",
    ]
    assert settings.get().rules == {"VG101": "off"}
    assert settings.get().freeze == ()


def test_from_sys_argv_without_touching_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x.py", "--vlmguard", "VG101=warn", "--lr", "1"])
    assert parsed(None, given=False) == ["--lr", "1"]
    assert sys.argv[1] == "--vlmguard"


def test_untouched_where_there_is_nothing_of_ours():
    argv = ["--lr", "1"]
    assert parsed(argv) is argv


def test_taken_out_under_off_even_if_wrong(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    assert parsed(["--vlmguard", "nonsense", "--lr", "1"]) == ["--lr", "1"]


@pytest.mark.parametrize("word", ["False", "off", "no"])
def test_yaml_off_switches_everything_off(word, monkeypatch):
    monkeypatch.delenv("VLMGUARD", raising=False)
    parsed(["--vlmguard", word])
    assert os.environ.pop("VLMGUARD") == "off"


def test_a_table_from_a_yaml_config():
    parsed(["--vlmguard", '{"VG101": false, "VG2": "warn"}'])
    assert settings.get().rules == {"VG101": "off", "VG2": "warn"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--vlmguard", "VG101=maybe"], "invalid policy .maybe.; use off"),
        (["--vlmguard", "VG999=off"], r"no rule has the code VG999 \(did you mean VG\d{3}"),
        (["--vlmguard-frieze", "vision"], "--vlmguard-freeze"),
        (["--vlmguard", "warn"], "names no rule"),
    ],
)
def test_bad_input_stops_before_training(argv, says):
    with pytest.raises(SettingsError, match=says):
        parsed(argv)
