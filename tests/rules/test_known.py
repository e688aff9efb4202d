"""The rules VG5xx know their codes and names without the catalogue, and read it at an exception."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
import weakref
from dataclasses import replace

import pytest

from tests.explain import schema
from vlmguard import registry
from vlmguard.core.facts import Failure, Run, Tower
from vlmguard.rules import known
from vlmguard_explain import rules
from vlmguard_explain.match import catalogue

CRASH = "Expected to mark a variable ready only once."
LOADED = "print(sum(m.startswith('vlmguard_explain') for m in sys.modules))"


def failure(text=CRASH):
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        return Failure("RuntimeError", text, error)


def test_file_names_say_what_the_catalogue_says():
    told = {rule.CODE: rule.NAME for rule in known.RULES}
    assert told == {entry.code: entry.name for entry in catalogue.load()}
    assert known.RULES[0].__doc__ == rules.page("VG501")


def test_two_files_of_the_catalogue_do_not_have_the_same_code(tmp_path):
    text = (catalogue.HERE / "catalogue" / "VG529-bf16.toml").read_text()
    files = [tmp_path / name for name in ("VG702-one.toml", "VG702-two.toml", "VG703-one.toml")]
    for file in files:
        file.write_text(text)
    told = [error for file in files for error in schema.errors(file)]
    assert told == ["VG702-two.toml: VG702-one.toml has the same code"]


def test_the_catalogue_is_imported_at_the_first_exception():
    code = (
        "import sys; from vlmguard import guard, registry; from vlmguard.core.facts import Failure;"
        "held = registry.get().rules; guard.checked(); registry.get().applying('x');"
        f"print(held['VG553'].NAME); {LOADED};"
        f"print(*(f.code for f in registry.get().on_error(None, None, Failure('E', {CRASH!r}))));"
        f"{LOADED.replace('sum', 'any')}"
    )
    env = {"VLMGUARD_RULES": "VG553=off", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["explain-arguments", "0", "VG501", "True"], done.stderr


def test_a_fault_in_reading_is_reported_once(monkeypatch, capsys):
    monkeypatch.setattr(rules, "speaker", lambda failure: 1 / 0)
    assert registry.get().on_error(None, None, failure("some other text")) == []
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1


def test_an_exception_that_was_explained_is_let_go():
    """It holds the frames of the run, and with them the model."""
    raised = failure()
    assert [found.code for found in registry.get().on_error(None, None, raised)] == ["VG501"]
    kept = weakref.ref(raised)
    del raised
    gc.collect()
    assert kept() is None


REDUCTION = "Expected to have finished reduction in the prior iteration before starting a new one."


def explained_in(run, raised, message=""):
    try:
        raised()
    except Exception as error:
        told = Failure(type(error).__name__, message or str(error), error)
        (found,) = registry.get().on_error(run, None, told)
        return found


def test_a_text_model_is_not_told_to_freeze_a_vision_tower():
    def crash():
        raise RuntimeError(REDUCTION)

    text = Run("x", {}, "ddp", 2, towers=(Tower("llm", 4, 4),))
    seeing = Run("x", {}, "ddp", 2, towers=(Tower("vision", 4, 4),))
    assert "vision" in explained_in(seeing, crash).why
    found = explained_in(text, crash)
    assert (found.code, "vision" in f"{found.why} {found.advice}") == ("VG503", False)
    cut = explained_in(replace(seeing, cut_off=("vision",)), crash)
    assert "no_grad" in cut.why


def test_what_files_the_traceback_names_is_read_in_the_run_as_from_a_log():
    """A message alone says neither which library refused, nor what."""

    def step():
        for _ in zip([1], [1, 2], strict=True):
            pass

    place = {"torch/optim/lr_scheduler.py": "VG570", "peft/tuners/lora/dora.py": "VG585"}
    for path, code in place.items():
        name = f"/x/site-packages/{path}"
        made = types.FunctionType(step.__code__.replace(co_filename=name), globals())
        found = explained_in(Run("x", {}, "fsdp", 2), made)
        assert found.code == code
        assert ("groups" if code == "VG570" else "one long row") in found.why
        told = "fewer groups" if code == "VG570" else "fsdp_version: 2"
        assert told in found.advice.partition("; or ")[0], "what is said first goes with the cause"


def test_a_broken_key_is_told_with_its_file():
    with pytest.raises(ValueError, match=r"catalogue/VG999-made\.toml: .*'titel'"):
        catalogue._known("catalogue/VG999-made.toml", {"titel": "a slip of the pen"})
