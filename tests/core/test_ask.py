"""``vlmguard compat`` in fresh interpreters: answers, errors, and what it costs."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

ISSUE = "--torch 2.6 --deepspeed 0.16.9 --strategy zero3 --tuning lora"


def vlmguard(words, code="from vlmguard.cli.main import main; sys.exit(main())"):
    code = f"import sys; sys.argv[:] = ['vlmguard', *{words.split()!r}]; {code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_answers_for_releases_that_are_not_installed():
    done = vlmguard(f"compat {ISSUE}")
    assert done.returncode == 0, done.stderr
    assert "use_reentrant=True" in done.stdout
    assert "recomputed_metadata" in done.stdout


def test_nothing_works_and_what_does():
    done = vlmguard(f"compat {ISSUE} --model two_forwards")
    assert done.returncode == 1
    assert "the nearest that works: DeepSpeed >= 0.19.3" in done.stdout


def test_what_fails_on_all_releases_around_is_not_said_to_work():
    done = vlmguard("compat --torch 2.9.1 --strategy fsdp2 --model tied")
    assert done.returncode == 1
    assert "untested: no variant of gradient checkpointing works on the nearest" in done.stdout
    assert "use_reentrant=" not in done.stdout


def test_loads_no_torch_and_no_plugin_machinery():
    code = "from vlmguard.cli.app import app; app(sys.argv[1:], standalone_mode=False); "
    code += "print([m for m in ('torch', 'wrapt', 'pluggy') if m in sys.modules])"
    assert vlmguard(f"compat {ISSUE}", code).stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--strategy zeor3", "did you mean zero3?"),
        ("--strategy zero3 --tuning lroa", "did you mean lora?"),
        ("--strategy zero3 --deepsped 0.16.9", "--deepspeed"),
        ("--strategy ddp --torch two", "'two' is no release"),
        ("--strategy ddp --accumulation 3", "is not one of its values (there is: 1, 2)"),
        ("--tuning lora", "--strategy is missing"),
        ("--strategy ddp --torch", "requires an argument"),
    ],
)
def test_a_bad_value_is_named_with_the_nearest(words, told):
    done = vlmguard(f"compat --torch 2.6 --deepspeed 0.16.9 {words}")
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [("swift sft --model x", "vlmguard check -- swift sft --model x"),
     ("train.sh", "vlmguard check train.sh"), ("explian", "Did you mean 'explain'?")],
)  # fmt: skip
def test_a_training_in_the_place_of_a_command(words, meant):
    done = vlmguard(words)
    assert done.returncode == 2
    assert meant in done.stderr


@pytest.mark.parametrize("option", ["--kept", "--blank"])
def test_rows_of_two_files_are_not_written_to_one(option, tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("[]")
    out = tmp_path / "out.json"
    done = vlmguard(f"rows {tmp_path}/a.json {tmp_path}/b.json {option} {out}")
    assert done.returncode == 2
    assert "give one at a time" in done.stderr
    assert not out.exists()


def test_the_other_commands_know_it_too():
    assert "compat" in vlmguard("--help").stdout
    assert "gradient checkpointing that works here" in vlmguard("doctor").stdout


def test_costs_at_most_300_ms():
    """In processor time: it waits for nothing, and other work on the machine does not count. A slow
    machine may take longer: as long as 25 bare starts of Python."""

    def seconds(call):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    asked = min(seconds(lambda: vlmguard(f"compat {ISSUE}")) for _ in range(5))
    bare = min(seconds(lambda: subprocess.run([sys.executable, "-c", "pass"])) for _ in range(5))
    assert asked - bare < max(0.3, 25 * bare)
