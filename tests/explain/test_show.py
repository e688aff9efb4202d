"""What is printed: exit codes, formats, no secret, no escape, Chinese on demand."""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.explain import compose
from tests.explain.schema import load
from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import steps as steps_of
from vlmguard_explain.command import explain, main
from vlmguard_explain.match.catalogue import Step
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.show import next_steps, show
from vlmguard_explain.source import clean

OOM = next(k for k in load() if k.code == "VG512").examples[0]["text"]
FAILED = compose.failing(3, OOM)


def shown(tmp_path, capfd, text, *words):
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return main([str(path), *words]), capfd.readouterr().out


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (compose.healthy(1), 0),
        (FAILED, 1),
        (compose.failing(4, "ValueError: the hamster left the wheel"), 3),
        (compose.preamble("TRL", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n", 4),
        ("", 4),
    ],
)
def test_exit_status(tmp_path, capfd, text, status):
    assert shown(tmp_path, capfd, text)[0] == status


def test_unreadable(tmp_path, capfd):
    (tmp_path / "weights").write_bytes(bytes(range(32)) * 1000)
    assert main([str(tmp_path / "none.log")]) == 2
    assert main([str(tmp_path / "weights")]) == 2
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 2
    assert "no such file" in capfd.readouterr().err


SHORT = (
    "VG512 Out of GPU memory (rank 1) at ", "cause: ", "try, in this order:", "[cost: ", "log:",
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 4", "more: vlmguard explain --all ",
)
WHOLE = (*SHORT[:-1], "run: ms-swift", "wrong if: ", "rank: rank 1, by torchrun's", "page: vlmguard rule VG512 (")


@pytest.mark.parametrize(("words", "parts"), [((), SHORT), (("--all",), WHOLE)])
def test_text_says_all(tmp_path, capfd, words, parts):
    _, out = shown(tmp_path, capfd, FAILED, *words)
    assert [part for part in parts if part not in out] == []
    assert words or len(out.splitlines()) <= 16


LOGS = sorted((Path(__file__).parent / "logs").rglob("*.log"))


def test_a_short_answer(monkeypatch, tmp_path):
    """The first step, two more, a few lines of the log; none is too long for a screen."""
    monkeypatch.chdir(LOGS[0].parents[1])
    lengths = []
    (long := tmp_path / "long.log").write_text(f"FileNotFoundError: [Errno 2] No such file or directory: '/{'x' * 400}.json'\n")
    for path in [long, *LOGS[::6]]:
        found = explain([os.path.relpath(path)])
        short, whole = (show.text(*found, whole=whole).splitlines() for whole in (False, True))
        assert max(map(len, short + whole)) <= 200
        lengths.append(len(short))
    assert statistics.median(lengths) <= 12
    assert max(lengths) <= 20


@pytest.mark.parametrize(
    ("step", "typed", "said"),
    [
        ("`ls -l /data`: is it there", "ls -l /data", "is it there"),
        ("`ABC=1 in front of the same command`: it says more", "ABC=1 in front of the same command", "it says more"),
        ("""`python -c 'print(": ")'; echo $?`: 0 is well""", """python -c 'print(": ")'; echo $?""", "0 is well"),
        ("`--bf16 true`, in place of `fp16`", "--bf16 true", "in place of `fp16`"),
        ("look at the first row, VG201", "", "look at the first row, VG201 (vlmguard rule VG201)"),
    ],
)
def test_what_is_typed_stands_apart_from_words(step, typed, said):
    assert next_steps.split(step) == (typed, said)


def test_a_long_command_is_broken_where_a_shell_joins_it():
    command = "ls " + " ".join(f"'/a b/{n}'" for n in range(60))
    lines = next_steps.folded(command, 100)
    assert max(map(len, lines)) <= 100
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


def test_generic_advice_says_so_and_stands_at_the_end():
    missing = next(known for known in load() if known.code == "VG552")
    said = [step.do for step in steps_of(missing, Facts(message="No module named 'x'"))]
    unsure = [one.startswith("not sure: ") for one in said]
    assert any(unsure)
    assert unsure == sorted(unsure)
    (line,) = next_steps.lines([Step("not sure: `python -m pip check`: it names what is missing")], 200)
    assert line == "  1. python -m pip check  # not sure: it names what is missing"


def test_unfinished_says_what_to_type(tmp_path, capfd):
    log = compose.preamble("TRL", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n"
    _, out = shown(tmp_path, capfd, log, "--all")
    assert out.startswith("unfinished: last step 5 of 100, no end marker")
    assert "py-spy dump --pid" in out
    assert "TORCH_NCCL" in out


def test_json(tmp_path, capfd):
    _, out = shown(tmp_path, capfd, FAILED, "--format", "json")
    data = json.loads(out)
    assert data["finding"]["code"] == "VG512"
    assert data["finding"]["url"].endswith("VG512.md")
    assert data["started"]["ranks"] == [1]
    assert data["run"]["framework"] == "ms-swift"


def test_github_is_one_command_that_a_log_cannot_break_out_of(tmp_path, capfd):
    evil = "ValueError: x\n::set-output name=a::b %0A::error::y"
    _, out = shown(tmp_path, capfd, compose.failing(4, evil), "--format", "github")
    assert out.count("\n") == 1
    assert out.startswith("::error file=")
    assert "%0A::set-output" not in out.replace("%0A  ", "")


def test_chinese_first_line(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("VLMGUARD_LANG", "zh")
    _, out = shown(tmp_path, capfd, FAILED)
    assert "显存不足" in out.splitlines()[1]


SECRETS = (
    "hf_AbCdEfGhIjKlMnOpQrStUvWx",
    "ghp_0123456789abcdefghij0123456789abcdef",
    "sk-proj-0123456789abcdefghij",
    "ms-01234567-89ab-cdef-0123-456789abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123",
    "correct-horse-battery",
)
SAID = (
    "token is {}", "--hub_token {} --model x", "'--hub_token', '{}', '--model'", "WANDB_API_KEY={}",
    "password: {}", '{{"api_key": "{}"}}', "https://user:{}@host/x", "Authorization: Bearer {}",
    "https://h/x?Signature={}&y=1", "export MODELSCOPE_API_TOKEN={}",
)


@pytest.mark.parametrize("form", SAID)
def test_secrets_are_blacked_out(tmp_path, capfd, form):
    for secret in SECRETS:
        if secret.startswith("correct") and form == "token is {}":
            continue  # prose: nothing says that this word is a secret
        line = form.format(secret)
        assert secret not in clean.redact(line), line
        log = compose.failing(4, f"ValueError: {line}")
        assert secret not in shown(tmp_path, capfd, log)[1]


def test_no_escape_is_passed_on(tmp_path, capfd):
    evil = "ValueError: \x1b]0;owned\x07\x1b[2Jx\x1b[31m \u202egnp.exe\u202c \x9b31m \x00\x08 end"
    for form in ("text", "json", "github"):
        _, out = shown(tmp_path, capfd, compose.failing(4, evil), "--format", form)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)
        assert "owned" not in out


def test_standard_input_and_the_console_script():
    """A quarter of a second of processor time, the best of five; no large package is imported. Python
    keeps its bytecode, as a user's does."""
    code = "import sys; sys.argv = ['vlmguard', 'explain', '-']; from vlmguard.cli.main import main; print(main()); "
    code += "print([m for m in ('torch', 'typer', 'rich', 'numpy', 'transformers') if m in sys.modules])"
    spent, kept = [], {**os.environ, "VLMGUARD": "off", "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(5):
        before = sum(os.times()[2:4])
        done = subprocess.run([sys.executable, "-c", code], input=FAILED.encode(), capture_output=True, env=kept, timeout=200)
        spent.append(sum(os.times()[2:4]) - before)
        assert done.stdout.startswith(b"VG512"), done.stderr
        assert done.stdout.split(b"\n")[-3:] == [b"1", b"[]", b""]
    assert min(spent) <= 0.25


@pytest.mark.parametrize("framework", ["", "ms-swift", "LLaMA-Factory", "TRL", "FlagEmbedding", "ColossalAI", "axolotl", "accelerate", "transformers"])
def test_flags_are_of_the_framework(framework):
    """Every remedy can be said for every framework; YAML frameworks get no command-line flag."""
    for known in load():
        for zero in ("", "ddp", "zero2", "zero3", "fsdp"):
            facts = Facts(framework=framework, strategy=zero)
            for do in steps_of(known, facts):
                said = flags.say(do, facts)
                assert said
                if framework in ("LLaMA-Factory", "axolotl") and do.do in ("batch", "non_reentrant", "workers"):
                    assert not said.startswith("--")


def test_every_entry_is_whole():
    """A page needs all of it; a Chinese line is Chinese; every example bears one of its signs."""
    for known in load():
        parts = (known.title, known.zh, known.wrong, known.evidence, known.examples)
        assert all(parts), known.code
        assert re.search("[\u4e00-\u9fff]", known.zh)
        assert all(example["origin"] for example in known.examples)
        assert steps_of(known, Facts())
