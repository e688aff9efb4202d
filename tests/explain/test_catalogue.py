"""The catalogue: its schema, its examples, what must not match, and what its steps may paste."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace

import pytest
import tomllib

from tests.explain import compose, schema
from tests.explain.schema import FILES, load
from vlmguard_explain.advice import flags, values
from vlmguard_explain.advice.steps import case, cause, steps
from vlmguard_explain.match import catalogue
from vlmguard_explain.match.catalogue import HERE, Pattern, table
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.tracebacks.event import flat

CHANGES = table("changes")
CONDITIONS = [(k.code, p) for k in load() for p in k.patterns if p.all or p.none or p.near]
READ = [tomllib.loads(path.read_text(encoding="utf-8")) for path in FILES]
UNLIKE = [one["unlike"] for read in READ for one in read.get("pattern", ())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_as_it_must_be(path):
    assert path.suffix == ".toml"
    assert schema.errors(path) == []
    assert not re.search("`python3? -c?[ <]", path.read_text()), "a command, not Python"


def test_a_slip_is_told_with_its_line_and_the_nearest_word(tmp_path):
    text = (HERE / "catalogue" / "VG529-bf16.toml").read_text()
    path = tmp_path / "VG529-bf16.toml"
    step = '\n[[step]]\ndo = "ls -l {paht}"\ncots = "none"\n\n[[step]]\ndo = "zeroo2"\n'
    step += '\n[[step]]\ncost = "none"\n\n[[step]]\ndo = "zero2"\nrun = ["phse=save"]\n'
    path.write_text(text.replace("message = [", "mesage = [", 1) + step)
    inner, missing, condition, key, value, change = schema.errors(path)
    line, lines = text.split("message = [")[0].count("\n") + 1, len(text.splitlines())
    assert inner.startswith(f"{path.name}:{lines + 4}: ")
    assert missing == f"{path.name}:{lines + 9}: {missing.split(': ')[1]}: Field required"
    assert condition.startswith(f"{path.name}:{lines + 14}: ")
    assert condition.endswith(": Assertion failed, no fact of a run is called phse; phase?")
    assert key == f"VG529-bf16.toml:{line}: no key is called mesage; message?"
    assert inner.endswith(": no key is called cots; cost?")
    assert value.endswith(": no value is called paht; path?")
    assert change.endswith(": no change is called zeroo2; zero2?")


@pytest.mark.parametrize(("name", "taken"), [("VG640-x", False), ("VG701-x", True)])
def test_the_ledger_has_the_codes_from_610_to_669(tmp_path, name, taken):
    path = tmp_path / f"{name}.toml"
    path.write_text((HERE / "catalogue" / "VG529-bf16.toml").read_text())
    assert (schema.errors(path) == []) is taken


def test_a_slip_of_toml_is_told_with_its_line(tmp_path):
    path = tmp_path / "VG701-x.toml"
    path.write_text('title = "x"\nzh = x\n')
    assert schema.errors(path)[0].startswith("VG701-x.toml:2: ")


def test_a_part_that_lacks_something_is_refused():
    case = {"said": ["a"], "trace": ["b"], "unlike": "a", "steps": ["c"]}
    pattern = {"message": "a", "all": ["b"], "unlike": "a"}
    for model, whole in ((schema.Case, case), (schema.Pattern, pattern)):
        model(**whole)
        for part in whole:
            with pytest.raises(ValueError, match="1 validation error"):
                model(**{key: value for key, value in whole.items() if key != part})


def alone(one: Pattern, text: str) -> bool:
    return one.matches(text, text, text)


def test_what_is_unlike_a_pattern_has_its_text_and_is_not_told():
    """By the conditions alone: without them it would be. Nor does another pattern of the failure
    tell it, at that place. File … is told as the engine tells it."""
    for (code, one), text in zip(CONDITIONS, UNLIKE, strict=True):
        frames = re.findall(r'File "(.+?)", line (\d+), in (\S+)', text)
        told = flat(text + "".join(f" {p}:{n} in {f} {p} in {f}" for p, n, f in frames))
        assert alone(replace(one, all=(), none=(), near=()), told), (code, text)
        there = catalogue.by_code()[code].by_place[one.where]
        assert not any(alone(other, told) for other in there), (code, text)


def test_what_is_unlike_a_case_has_its_first_text_and_is_not_told():
    """Its last line is the message, what stands before that the traceback."""
    for one in (one for r in READ for one in r.get("case", ()) if "unlike" in one):
        trace, _, message = map(flat, one["unlike"].rpartition("\n"))
        texts = {key: tuple(one.get(key, ())) for key in ("said", "trace", "unless")}
        assert texts["said"][0] in message, one["unlike"]
        assert not catalogue.Case(**texts, steps=()).matches(message, trace), one["unlike"]


@pytest.mark.parametrize("one", [one for one in catalogue.cases() if one.mended or one.since])
def test_a_case_of_some_releases_is_not_told_of_others(one):
    facts = Facts(message=" ".join(one.said), trace=" ".join(one.trace))
    oldest = f"{(one.since or one.mended).split()[0]} 0"
    told = {oldest: not one.since, one.since: True, one.mended: False}
    for release in filter(None, told):
        at = replace(facts, releases=dict([release.split()]))
        assert (case(at) is one) is told[release]


@pytest.mark.parametrize(("code", "one"), CONDITIONS)
def test_a_condition_decides(code, one):
    """With all that it asks for it matches; without one of these, or with what it forbids, not."""
    told = " ".join((one.text, *one.all, *one.near))
    assert alone(one, told) or any(n in told for n in one.none), code
    for asked in (*one.all, *one.near):
        rest = " ".join(t for t in (one.text, *one.all, *one.near) if asked not in t)
        assert not alone(one, rest), (code, asked)
    for forbidden in one.none:
        assert not alone(one, f"{told} {forbidden}"), (code, forbidden)


def test_healthy_lines_bear_no_pattern_of_lines():
    lines = {line for seed in range(30) for line in compose.healthy(seed).splitlines()}
    told = {(k.code, line) for k in load() for line in lines if k.match_line(line)}
    quiet = ("WARN", "INFO", "warn", "Warning", "ERROR", "Error", "Skip", "falling back", "failed")
    assert [one for one in told if not any(word in one[1] for word in quiet)] == []


def test_each_value_is_used():
    """In a step, in a condition, or by another value."""
    sources = [*FILES, *(HERE / "tables").glob("*.toml"), *(HERE / "advice").glob("*.py")]
    text = "".join(path.read_text() for path in sources)
    used = set(re.findall(r"""\{([a-z]{3,20})\}|["']!?([a-z]{3,20})(?:["'](?!:)|[~=])""", text))
    assert values.names() <= {name for pair in used for name in pair}


LOOK = re.compile(table("advice")["steps"]["look"])


@pytest.mark.parametrize("known", load(), ids=lambda known: known.code)
def test_what_changes_the_run_comes_before_a_look_and_what_is_not_sure_is_last(known):
    for one in known.examples:
        facts = Facts(message=flat(one["text"]))
        found = [step for step in steps(known, facts) if step in known.steps]
        said = [CHANGES.get(step.do, {}).get("usual", step.do) for step in found]
        unsure = [one.startswith("not sure: ") for one in said]
        looks = [bool(LOOK.match(one)) for one in said if not one.startswith("not sure: ")]
        assert unsure == sorted(unsure)
        assert known.order != "cause" or looks == sorted(looks)


HOSTILE = "x'; reboot #\n`id` $(id) \x1b[2J hf_abcdefghijklmnopqrstuv"


@pytest.mark.parametrize("known", load(), ids=lambda known: known.code)
def test_no_step_pastes_what_a_stranger_wrote(known):
    """Whatever a message names is quoted or left out, without escapes and secrets."""
    words = (f"No module named '{HOSTILE}' [Errno 2] No such file or directory: '/a/{HOSTILE}' "
             f"unrecognized arguments: --{HOSTILE} {known.examples[0]['text']}")  # fmt: skip
    facts = Facts(message=words, model=HOSTILE, fields={"output_dir": HOSTILE, "dataset": HOSTILE})
    for step in steps(known, facts):
        said = flags.say(step, facts)
        for typed in re.findall("`([^`]*)`", flags.marked(step, facts).replace("sudo reboot", "")):
            assert "reboot" not in typed or "reboot" not in shlex.split(typed), "a word of its own"
        assert not re.search(r"[\x00-\x08\x1b]", said)
        assert "hf_abcdefghijklmnopqrstuv" not in said
    assert cause(known, facts)


def test_values_of_a_log_are_quoted_for_a_shell():
    said = "FileNotFoundError: [Errno 2] No such file or directory: '/a b/$(id).json'"
    for value in values.of(Facts(message=said)).values():
        assert len(shlex.split(value)) <= 1 or "$(" not in value


def test_every_change_has_plain_words():
    assert all("usual" in ways for ways in CHANGES.values())
    used = {step.do for known in load() for step in known.steps}
    assert {one for one in used if re.fullmatch(r"[a-z_0-9]+", one)} <= set(CHANGES)


def test_in_a_package_that_is_not_the_users_own_the_users_cache_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue.sys, "dont_write_bytecode", False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(catalogue.Path, "exists", lambda _: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = catalogue.data.__wrapped__()
    assert (tmp_path / "vlmguard" / "catalogue.json").is_file()
    assert "'unlike'" not in str([read for path, read in found.items() if path[:2] == "ca"])
    assert catalogue.data.__wrapped__() == found
