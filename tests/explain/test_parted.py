"""What is to be typed stands in front of "#": pasted as a whole line it is the command alone."""

# ruff: noqa: E501
from __future__ import annotations

import shlex

import pytest

from vlmguard.explain import flags, parted
from vlmguard.explain.catalogue import load
from vlmguard.explain.logfacts import Facts

ROWS = (
    ("ls -la out: is it there, and whole?", "ls -la out", "is it there, and whole?"),
    ("free -g; ps -eo pid,rss --sort=-rss | head: who holds it? end it", "free -g; ps -eo pid,rss --sort=-rss | head", "who holds it? end it"),
    ("pip install py-spy; for p in $(pgrep -f '[p]y'); do py-spy dump --pid $p; done: who stands where", "pip install py-spy; for p in $(pgrep -f '[p]y'); do py-spy dump --pid $p; done", "who stands where"),
    ("python -c 'import sys; print(1, {2: 3})' x: a, b", "python -c 'import sys; print(1, {2: 3})' x", "a, b"),
    ("python -c $'print(\\'a: b\\')' x: c", "python -c $'print(\\'a: b\\')' x", "c"),
    ("grep -nE '\\\\[[:space:]]+$' x.sh: a backslash", "grep -nE '\\\\[[:space:]]+$' x.sh", "a backslash"),
    ("HF_HOME=/s hf download a/b where there is a network", "HF_HOME=/s hf download a/b", "where there is a network"),
    ("NCCL_IB_DISABLE=1 in front of the command: a test", "NCCL_IB_DISABLE=1 in front of the command", "a test"),
    ("NCCL_IB_DISABLE=1 in front of the same command, on every node: a test", "NCCL_IB_DISABLE=1 in front of the same command", "on every node: a test"),
    ("--adapter with this model's size: another's (7B)", "--adapter", "with this model's size: another's (7B)"),
    ("--max_length 8192 (None switches it off)", "--max_length 8192", "(None switches it off)"),
    ("--bf16 true; in code: TrainingArguments(bf16=True)", "--bf16 true", "in code: TrainingArguments(bf16=True)"),
    ("bf16: true, fp16: false (transformers 4)", "bf16: true, fp16: false", "(transformers 4)"),
    ("a_kwargs: {b_c: false}, def_g: true (h)", "a_kwargs: {b_c: false}, def_g: true", "(h)"),
    ("print([x, y], {k: v for k in z}) before training: [] is wrong", "print([x, y], {k: v for k in z})", "before training: [] is wrong"),
    ("debug: overflow: ends at the first nan", "debug: overflow", "ends at the first nan"),
    ("wrap: A,B: in f.yaml", "wrap: A,B", "in f.yaml"),
    ("a = b[:, :-1]; c = d[:, 1:], first in f", "a = b[:, :-1]; c = d[:, 1:]", "first in f"),
)  # fmt: skip


@pytest.mark.parametrize(("said", "typed", "words"), ROWS)
def test_words_are_behind_what_is_typed(said, typed, words):
    assert parted.step(said) == f"{typed}  # {words}"


def test_what_is_no_command_and_what_has_no_words_stays():
    for said in ("save to a local disk, then copy", "python -m pip install 'a<2'", "bf16: true", "a_kwargs: {b_c: false}",
                 "find the row, and mend it", "a queue, or an instance: one of them",
                 "--packing false --padding_free false", "TORCHDYNAMO_DISABLE=1 in front of the command, torch_compile: false"):  # fmt: skip
        assert parted.step(said) == said


def test_codes_are_commands():
    assert parted.step("no memory (VG532)") == "no memory (vlmguard rule VG532)"
    assert parted.codes("at fault: VG536") == "at fault: VG536 (vlmguard rule VG536)"


@pytest.mark.parametrize("framework", ["", "ms-swift", "LLaMA-Factory", "TRL"])
def test_every_command_of_the_catalogue_is_whole(framework):
    for known in load():
        for do in known.steps():
            typed, mark, _ = parted.step(flags.say(do, Facts(framework=framework))).partition(
                "  # "
            )
            if mark and "<<<" not in typed and "$'" not in typed:
                shlex.split(typed)  # no quote is left open
                assert not typed.endswith((":", ",", ";")), typed
