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
        ("[rules]\nVG101 = 'warm'", "VG101: invalid policy 'warm'; use off, warn, fix or error"),
        ("freez = ['vision']", "did you mean freeze"),
        ("freeze = 3", "list of strings"),
        ("[rules]\n'what?' = 'off'", "'what.' is not a rule code, as VG101"),
        ("[rules]\nVG1O1 = 'off'", "did you mean VG101"),
        ("wait = -1", "wait: invalid value -1; use seconds from 0 to 3600"),
        ("wait = true", "wait: invalid value True"),
        ("dry_step = 'perhaps'", "dry_step: invalid value 'perhaps'; use true or false"),
        ("ledger = 'fist'", "ledger: invalid value 'fist' .did you mean first"),
        ("ledger = -3", "ledger: invalid value -3; use off, first, or N for every Nth step"),
        ("ledger = true", "ledger: invalid value True .*use off, first"),
        ("ledgr = 3", "did you mean ledger"),
        ("log = 'perhaps'", "log: invalid value 'perhaps'; use true or false"),
        ("not toml", "cannot be read"),
    ],
)
def test_bad_files_name_the_thing(tmp_path, text, says):
    (tmp_path / "vlmguard.toml").write_text(text)
    with pytest.raises(SettingsError, match=says):
        resolve(folder=tmp_path)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("VG101", "VLMGUARD_RULES: 'VG101' is not CODE=POLICY"),
        ("VG101=maybe", "VG101: invalid policy 'maybe'; use off, warn, fix or error"),
        ("VG1O1=off", r"VLMGUARD_RULES: 'VG1O1' is not .* \(did you mean VG101\?\)"),
    ],
)
def test_bad_environment(tmp_path, monkeypatch, value, says):
    monkeypatch.setenv("VLMGUARD_RULES", value)
    with pytest.raises(SettingsError, match=says) as caught:
        resolve(folder=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("VLMGUARD_RULE", "VG101=off", "variable VLMGUARD_RULE .did you mean VLMGUARD_RULES"),
        ("VLMGUARD_FREZE", "", "did you mean VLMGUARD_FREEZE"),
        ("VLMGUARDS", "off", "did you mean VLMGUARD"),
        ("VLMGUARD_DRY_STEP", "maybe", "VLMGUARD_DRY_STEP: invalid value 'maybe'"),
        ("VLMGUARD", "of", "VLMGUARD: invalid value 'of'; use on or off"),
        ("VLMGUARD_OBSERVE", "of", "VLMGUARD_OBSERVE: invalid value 'of'"),
        ("VLMGUARD_CONFIG", "/no/such/file.toml", "cannot be read"),
    ],
)
def test_an_unknown_name_or_value_is_an_error(tmp_path, monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=says):
        resolve(folder=tmp_path)


@pytest.mark.parametrize(
    "name", ["VLMGUARD_LANG", "VLMGUARD_TABLES", "VLMGUARD_ENVS", "VLMGUARD_TEST_CAPTURE"]
)
def test_other_names_of_ours_are_known(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "x")
    resolve(folder=tmp_path)


@pytest.mark.parametrize("word", ["", "on", "1", "True", "yes", "off", "0", "false", "no"])
def test_words_of_the_switch(tmp_path, monkeypatch, word):
    from vlmguard.runtime.stub import is_off

    monkeypatch.setenv("VLMGUARD", word)
    resolve(folder=tmp_path)
    assert is_off() is (word in ("off", "0", "false", "no"))


def test_every_name_that_the_sources_use_is_known():
    import re
    from pathlib import Path

    root = Path(settings.__file__).parents[2]
    files = [f for top in ("vlmguard", "plugins") for f in (root / top).rglob("*.py")]
    names = {n for f in files for n in re.findall(r"[\"'](VLMGUARD_[A-Z_]+)[\"']", f.read_text())}
    for name in names - {"VLMGUARD_TEST_"}:
        settings.check_environment({name: "on"})


@pytest.mark.parametrize(
    ("word", "read"),
    [("off", "off"), ("0", "off"), ("no", "off"), ("First", "first"), ("20", 20), ("1", 1)],
)
def test_words_of_the_ledger(tmp_path, monkeypatch, word, read):
    monkeypatch.setenv("VLMGUARD_LEDGER", word)
    monkeypatch.setenv("VLMGUARD_LOG", "on")
    used = resolve(folder=tmp_path)
    assert (used.ledger, used.log) == (read, True)
    settings.publish(used)
    assert settings.get() == used


def test_a_file_sets_the_ledger(tmp_path):
    assert (resolve(folder=tmp_path).ledger, resolve(folder=tmp_path).log) == (1000, False)
    (tmp_path / "vlmguard.toml").write_text("ledger = false\nlog = true\n")
    assert (resolve(folder=tmp_path).ledger, resolve(folder=tmp_path).log) == ("off", True)


def test_unknown_code_names_the_nearest():
    with pytest.raises(SettingsError, match="did you mean VG101"):
        check_codes(Settings({"VG111": "off"}), ["VG101", "VG202"])
    check_codes(Settings({"VG2": "off"}), CODES)


def test_published_settings_reach_children(monkeypatch):
    used = Settings({"VG101": "off"}, ("vision",), "r.jsonl", True, 7.5, ("x",))
    settings.publish(used)
    assert settings.get() == used
    assert settings.get().digest == used.digest != Settings().digest


def test_a_second_training_in_one_process_has_its_own_settings(tmp_path, monkeypatch):
    """As in a notebook: what the command line gave stays, the rest is read again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLMGUARD_RULES", "VG101=warn")
    assert settings.get().rules == {"VG101": "warn"}
    monkeypatch.setenv("VLMGUARD_RULES", "VG102=warn")
    assert settings.get().rules == {"VG102": "warn"}
    settings.publish(resolve({"VG3": "off"}, ("vision",)))
    assert settings.get().rules == {"VG102": "warn", "VG3": "off"}
    monkeypatch.delenv("VLMGUARD_RULES")
    assert settings.get().rules == {"VG3": "off"}
    assert settings.get().freeze == ("vision",)
    (tmp_path / "vlmguard.toml").write_text("dry_step = true\n")
    assert not settings.get().dry_step
    assert settings.renew().dry_step
    assert settings.get().dry_step
    assert settings.get().rules == {"VG3": "off"}


def test_what_a_program_told_us_is_renewed_as_it_is():
    told = Settings({"VG101": "off"}, sources=("guard_booster",))
    settings.publish(told)
    assert settings.renew() == told


@pytest.mark.parametrize("published", ["{", "[1, 2]", '["", {"rules": {}}]'])
def test_what_another_release_published_is_resolved_anew(monkeypatch, published):
    monkeypatch.setenv(settings.RESOLVED, published)
    assert settings.get() == resolve()
