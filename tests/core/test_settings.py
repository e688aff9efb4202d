from __future__ import annotations

import pytest

from vlmguard.core import settings
from vlmguard.core.settings import Settings, SettingsError, check_codes, resolve

CODES = ("VG101", "VG202", "VG201")


def test_longest_prefix_wins():
    used = Settings({"VG": "off", "VG2": "warn", "VG201": "error"})
    assert [used.policy(code, "fix") for code in CODES] == ["off", "warn", "error"]
    assert Settings().policy("VG101", "fix") == "fix"


def test_precedence(tmp_path, monkeypatch):
    (tmp_path / "vlmguard.toml").write_text(
        'freeze = ["vision"]\n[rules]\nVG1 = "off"\nVG2 = "off"\nVG3 = false\n'
    )
    monkeypatch.setenv("VLMGUARD_RULES", "VG2=warn,VG101=warn")
    used = resolve({"VG101": "error"}, folder=tmp_path)
    assert used.rules == {"VG1": "off", "VG2": "warn", "VG3": "off", "VG101": "error"}
    assert used.freeze == ("vision",)
    assert used.sources == ("vlmguard.toml", "environment", "command line")


def test_command_line_freeze_replaces_and_none_clears(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.vlmguard]\nfreeze = ["vision"]\n')
    assert resolve(freeze=("llm",), folder=tmp_path).freeze == ("llm",)
    assert resolve(freeze=settings.read_freeze("none", ""), folder=tmp_path).freeze == ()


def test_somebody_elses_pyproject_is_passed_by(tmp_path):
    inner = tmp_path / "a"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "vlmguard.toml").write_text("[rules]\nVG101 = 'warn'\n")
    assert resolve(folder=inner).rules == {"VG101": "warn"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rules = 3", "must be a table"),
        ("[rules]\nVG101 = 'warm'", "did you mean warn"),
        ("freez = ['vision']", "did you mean freeze"),
        ("freeze = 3", "list of strings"),
        ("[rules]\n'what?' = 'off'", "no rule code"),
        ("not toml", "cannot be read"),
    ],
)
def test_bad_files_name_the_thing(tmp_path, text, says):
    (tmp_path / "vlmguard.toml").write_text(text)
    with pytest.raises(SettingsError, match=says):
        resolve(folder=tmp_path)


@pytest.mark.parametrize(
    ("value", "says"), [("VG101", "CODE=POLICY"), ("VG101=maybe", "no policy")]
)
def test_bad_environment(tmp_path, monkeypatch, value, says):
    monkeypatch.setenv("VLMGUARD_RULES", value)
    with pytest.raises(SettingsError, match=says):
        resolve(folder=tmp_path)


def test_unknown_code_names_the_nearest():
    with pytest.raises(SettingsError, match="did you mean VG101"):
        check_codes(Settings({"VG111": "off"}), ["VG101", "VG202"])
    check_codes(Settings({"VG2": "off"}), CODES)


def test_published_settings_reach_children(monkeypatch):
    used = Settings({"VG101": "off"}, ("vision",), "r.jsonl", True, ("x",))
    settings.publish(used)
    assert settings.get() == used
    assert settings.get().digest == used.digest != Settings().digest
