"""Flags are changed as argparse reads them."""

from __future__ import annotations

from vlmguard.rehearse.argv import Argv


def test_the_last_one_wins_and_both_spellings_are_one():
    argv = Argv("--max-steps 3 --max_steps 5 --a=1 --b x y".split())
    assert argv.get("max_steps") == "5"
    assert argv.get("a") == "1"
    assert argv.values("b") == ["x", "y"]
    argv.set("max_steps", 2)
    assert argv.words == "--a=1 --b x y --max_steps 2".replace("--a=1", "--a 1").split()


def test_flags_that_this_release_lacks_are_not_set():
    argv = Argv(["--a", "1"], frozenset({"a"}))
    argv.set("b", 2)
    assert argv.words == ["--a", "1"]


def test_negative_numbers_are_values():
    assert Argv(["--max_length", "-1"]).get("max_length") == "-1"


def test_what_was_replaced_is_said_once_and_only_where_it_was_given():
    argv = Argv(["--quant_bits", "4", "--quant_method", "bnb"])
    argv.replace(["quant_method", "quant_bits"], "not quantised")
    argv.replace(["use_liger_kernel"], "needs a GPU")
    assert argv.words == []
    assert argv.notes == ["--quant_method: not quantised"]


def test_switches():
    assert Argv(["--use_vllm"]).true("use_vllm")
    assert Argv(["--use_vllm", "True"]).true("use_vllm")
    assert not Argv(["--use_vllm", "false"]).true("use_vllm")
    assert not Argv([]).true("use_vllm")
