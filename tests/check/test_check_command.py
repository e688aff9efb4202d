"""The command: exit statuses, formats, and one line for what is missing."""

from __future__ import annotations

import json

import pytest

from vlmguard.check import answer, drafted_run, judge, launcher, redact, show
from vlmguard.check.answer import Answer
from vlmguard.check.drafted_run import Draft
from vlmguard.check.reading import python_files, row_kinds
from vlmguard.check.reading.fields import Field
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.reading.row_kinds import Rows
from vlmguard.check.script import Reading
from vlmguard.check.shell.state import Call, Trace
from vlmguard.cli import check


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(text: str) -> str:
        (tmp_path / "x.sh").write_text(text)
        return "x.sh"

    return make


def run(*words: str) -> int:
    try:
        return check.main(words)
    except SystemExit as left:
        return left.code


def test_without_the_framework_it_cannot_tell(capsys, monkeypatch):
    monkeypatch.setattr(python_files, "package", lambda name: None)
    assert run("--", "swift", "sft", "--model", "x") == 2
    assert "pip install '/path/to/vlmguard[swift]'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [("echo hello", 0, "nothing to judge"), ("make train", 2, "not seen inside"),
     ("megatron sft --x", 2, "not looked at: megatron sft"),
     ("swift infer --model x", 0, "does not train"),
     ("srun torchrun x.py", 2, "not looked at: x.py"),
     ("python prepare.py", 2, "prepare.py is not on this disk"), ("if", 2, "not understood"),
     ("[ -z $1 ] && exit 1\nswift sft --x", 2, "x.sh:2: not understood: whether swift sft runs"),
     ("if false; then swift infer --x; fi", 0, "nothing to judge"),
     ("# swift sft --x\nexit 0", 0, "nothing to judge"),
     ("swift sft \\\r\n --x 1\r\n", 2, "x.sh:1: not understood: lines that end as on Windows"),
     ('"$PYTHON" train.py', 2, "a command without a name"),
     ("tee a.sh <<< 'swift infer'; source a.sh", 0, "does not train"),
     ("source ./nowhere.sh", 2, "x.sh:1: not seen inside: source ./nowhere.sh"),
     ("source nowhere/bin/activate", 0, "nothing to judge"),
     ("swift sft --help", 0, "it prints its options"),
     ("for i in 1 2 3; do swift infer --seed $i; done", 0, "and 2 more commands of this line"),
     ("for i in {1..99}; do\nswift infer $i\nmegatron sft $i\ndone", 2, "3: megatron sft 1")],
)  # fmt: skip
def test_exit_status(script, capsys, text, code, told):
    assert run(script(text)) == code
    assert told in capsys.readouterr().out


def test_many_different_commands_fit_on_a_screen(script, capsys):
    lines = [f"megatron sft --{number}" for number in range(200)]
    assert run(script("\n".join(["swift infer", *lines]))) == 2
    said = capsys.readouterr().out.splitlines()
    assert len(said) < 70
    assert said[0] == "cannot tell: 201 commands, 0 judged"
    assert "x.sh:2: megatron sft --0" in said[1]
    assert "and 171 commands more (all with --format json)" in said


def test_a_value_of_any_length_is_shown_shortly(script, capsys):
    assert run(script(f"megatron sft --x {'y' * 500_000} --password s3cr3t")) == 2
    assert len(capsys.readouterr().out) < 2000
    assert redact.text("y" * 500_000).endswith("… (500000 characters)")


def test_not_every_command_of_an_endless_script_is_judged(script, capsys, monkeypatch):
    monkeypatch.setattr(answer, "SECONDS", 0)
    assert run(script("swift infer --x\nswift infer --y")) == 2
    assert "2 commands: not all of them were looked at in 0 s" in capsys.readouterr().out


def test_words_behind_one_that_may_be_a_flag_are_not_called_wrong():
    mark = Trace().unknown("a variable")
    assert judge._clear(["a", mark, "true", "3", "--x", "4"]) == ["a", "--x", "4"]


def test_a_fault_of_ours_is_one_commands_own(script, capsys, monkeypatch):
    monkeypatch.setattr(judge, "_judged", lambda *given: {}["no"])
    assert run(script("swift sft --x")) == 2
    assert "a fault of vlmguard's own (KeyError: 'no')" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [("nowhere.sh",), (), ("x.sh", "--", "swift"), ("--format", "odd", "x.sh"),
              ("--releases", "swift", "x.sh"), ("/dev/zero",)],
)  # fmt: skip
def test_wrong_use_is_one_line(script, capsys, words):
    script("true")
    assert run(*words) == 2
    said = capsys.readouterr()
    assert said.err.startswith("vlmguard check: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("flags", [(), ("--model", "x")])
def test_a_command_without_its_dashes_is_told_where_they_belong(script, capsys, flags):
    script("true")
    assert run("swift", "sft", *flags) == 2
    assert "A command comes after --: vlmguard check -- swift" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["json", "sarif", "text", "github"])
def test_formats_hold_no_secret(script, capsys, shape):
    name = script("curl -H 'Authorization: Bearer s3cr3t' x\nX=$(curl -u me:s3cr3t y)\n"
                  "torchrun odd.py --model $X\nif test $X; then cd $X; fi\n"
                  "eval swift sft --hub_token s3cr3t --model https://u:s3cr3t@h/x\n"
                  "torchrun odd.py --api_key s3cr3t\nif")  # fmt: skip
    assert run("--format", shape, name) == 2
    said = capsys.readouterr().out
    assert "s3cr3t" not in said
    if shape == "sarif":
        assert json.loads(said)["runs"][0]["results"][0]["ruleId"] == "cannot-tell"
    if shape == "json":
        assert json.loads(said)["exit"] == 2
    if shape == "github":
        assert said.startswith("::warning file=x.sh,line=")


def test_what_nobody_looked_at_has_a_place_in_github(script, capsys):
    assert run("--format", "github", script("true\nnew_launcher --gpus 8 train.py\n")) == 2
    said = capsys.readouterr().out
    assert said.startswith("::warning file=x.sh,line=2,"), said
    assert "not seen inside: new_launcher --gpus 8 train.py" in said


def test_what_is_not_on_this_disk_has_a_place_in_github():
    call = Call(("swift", "sft"), {}, "/", 3, "a.sh")
    job = launcher.Job(call, "swift sft", ())
    found = judge.Verdict(job, judge.JUDGED, unread=("the model m",))
    said = show.github([Answer(Reading("a.sh"), (found,))])
    assert said == "::warning file=a.sh,line=3,title=cannot-tell::not looked at: the model m"


def draft(**other) -> Draft:
    given = {"framework": "ms-swift", "strategy": "ddp", "world": 2, "find_unused": False,
             "trains": {"vision": "full", "aligner": "full", "llm": "full"},
             "checkpointed": ("vision", "aligner", "llm"), "use_reentrant": False}  # fmt: skip
    return Draft(**{**given, **other})


@pytest.mark.parametrize(
    ("kinds", "complete", "strategy", "pads", "level"),
    [({"text", "image"}, True, "ddp", "no", "error"), ({"image"}, True, "ddp", "no", None),
     ({"image"}, False, "ddp", "no", "note"), (set(), False, "ddp", "no", "note"),
     ({"text", "image"}, True, "ddp", "yes", None),
     ({"text", "image"}, True, "zero2", "no", "error"),
     ({"text"}, True, "zero2", "no", None), ({"text", "image"}, True, "single", "no", None)],
)  # fmt: skip
def test_rows_decide_what_may_be_unused(kinds, complete, strategy, pads, level):
    from vlmguard import registry

    met = Rows(frozenset(kinds), complete)
    run = drafted_run.run(draft(strategy=strategy, rows=met, pads_itself=pads))
    found = {f.code: f.level for f in registry.get().pre_wrap(run)}
    assert found.get("VG106") == level


def test_an_edit_replaces_the_flag_where_it_stands():
    from vlmguard.check.framework import Edit, Framework
    from vlmguard.check.launcher import Job
    from vlmguard.check.shell.state import Call

    call = Call((), {}, "/", 1, "x")
    job = Job(call, "swift sft", ("--a", "1", "--b-c", "x", "y", "--d=5"), prefix=("swift", "sft"))
    edits = [Edit("--b_c", "z"), Edit("--d", "6"), Edit("--e", "7"), Edit("--a", None)]
    assert judge.applied(job, edits, Framework()) == [
        "swift", "sft", "--b_c", "z", "--d", "6", "--e", "7"]  # fmt: skip


def test_field_kinds():
    assert Field("x", "Optional[bool]", None).boolean
    assert Field("x", "list[str] | None", None).many
    assert not Field("x", "str", "").many


@pytest.mark.parametrize(
    ("evaluated", "when", "told"),
    [("mixed", "steps", ["in evaluation: under zero3 ra"]), ("mixed", "no", []),
     ("text", "steps", []), ("", "steps", [])],
)  # fmt: skip
def test_evaluation_is_judged_by_its_own_rows(evaluated, when, told, tmp_path):
    """Training rows of text alone, under ZeRO-3: nothing waits, but in an evaluation of both."""
    from vlmguard.check.reading.fields import Values
    from vlmguard.check.reading.named_files import Files

    for name, images in (("mixed", [["a"], []]), ("text", [[], []])):
        lines = [json.dumps({"messages": [], "images": each}) + "\n" for each in images]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    given = {"eval_strategy": when, "val_dataset": [f"{evaluated}.jsonl"] if evaluated else []}
    made = draft(strategy="zero3", rows=Rows(frozenset({"text"}), True))
    found = judge._in_evaluation(Values({}, given), made, Files(str(tmp_path)), set())
    assert [finding.why[:29] for finding in found] == told


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.jsonl", ""), ("a.jsonl", "\n \n"), ("a.jsonl", "1\n2\n"), ("a.json", "[]"),
     ("a.json", "3"), ("a.csv", "image,text\n"), ("a.json", '{"data": []}')],
)  # fmt: skip
def test_a_file_without_a_row_is_refused(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(Unreadable, match="no row in it that can be read"):
        row_kinds.of([name], Files(str(tmp_path)))


def test_each_word_is_a_script(script, tmp_path, capsys):
    script("make train")
    (tmp_path / "y.sh").write_text("echo hello\n")
    assert run("--each", "y.sh", "x.sh") == 2
    assert run("--each", "y.sh", "y.sh") == 0
    assert "nothing to judge" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--stric", "x.sh"), "--stric (did you mean --strict?)"),
        (("--model", "x"), "unrecognized arguments: --model"),
        (("x.sh", "--model", "a b"), "the script's: vlmguard check -- bash x.sh --model 'a b'"),
        (("--lr", "1", "x.sh"), "unrecognized arguments: --lr\n"),
        (("--strict", "x.py", "--lr", "1"), "vlmguard check -- python x.py --lr 1"),
    ],
)
def test_flags_that_are_not_ours(script, capsys, words, told):
    script("")
    assert run(*words) == 2
    assert told in capsys.readouterr().err
