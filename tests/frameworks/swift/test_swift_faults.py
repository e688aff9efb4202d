"""What containment calls is made to raise, in real runs that say that they reached it.

What only watches is broken all at once: a healthy run stays bitwise as without the guard. What
judges or mends is broken alone: a run that fails without the guard then fails as it would have.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.frameworks.swift.cases import LORA, ONCE, REENTRANT
from tests.frameworks.swift.classes import NON_REENTRANT, TRAINED, evaluated, zero
from tests.kit import envs, swift, trainers
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
SFT = ["sft"]
WATCHING = (
    "vlmguard_transformers.arguments:settle",
    "vlmguard_transformers.arguments:check_freeze",
    "vlmguard.run_report:header",
    "vlmguard.agree:basis",
    "vlmguard.agree:plan",
    "vlmguard_torch.layout.freezing:check",
    "vlmguard_transformers.model.loss:_if_ignored",
    "vlmguard_transformers.model.loss:_of_routers",
    "vlmguard_transformers.watch.first_steps:start",
    "vlmguard_transformers.watch.first_steps:before",
    "vlmguard_transformers.watch.first_steps:after",
    "vlmguard_transformers.data.phases:mark",
    "vlmguard_transformers.lifecycle:_comes_later",
    "vlmguard_transformers.lifecycle:_settle",
    "vlmguard_transformers.lifecycle:_own_steps",
    "vlmguard_transformers.data.batches:hear",
    "vlmguard_swift.batches:_judge",
    "vlmguard_swift.batches:_fetched",
    "vlmguard_swift.batches:_seen",
    "vlmguard.guard:close",
)
DEEPSPEED = (
    "vlmguard_transformers.watch.first_steps:at_engine",
    "vlmguard_transformers.watch.first_steps:confirmed",
)
MENDING = (
    "vlmguard_transformers.lifecycle:Life.take_up",
    "vlmguard_transformers.lifecycle:begin",
    "vlmguard_transformers.translate:run",
    "vlmguard_transformers.apply:apply",
    "vlmguard.guard:on_error",
)
FOLLOWED = {
    "vlmguard.agree:nothing": "vlmguard_transformers.translate:run",
    "vlmguard.guard:announce_skip": "vlmguard_transformers.profiles:of",
}
"""What is called where another one of ours has failed."""
UNWATCHED = ("vlmguard.core.runstate:of",)
"""How a run is found again."""
CAMPAIGN = pytest.mark.campaign
ALONE = {
    "vlmguard.run_report:changed",
    *UNWATCHED,
    "vlmguard.runtime.report:say",
    "vlmguard_transformers.model.observation:_observe",
    "vlmguard_transformers.arguments:resolve",
    "vlmguard_transformers.arguments:take",
    "vlmguard.guard:abort",
    "vlmguard.runtime.refusal:in_one_line",
}


def tail(outcome):
    return outcome.output[-3000:]


def run(data, flags, *broken, model="qwen2_vl"):
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in flags]
    extra = {"VLMGUARD_TEST_FAULT": ",".join(broken)} if broken else {}
    done = swift.run(SFT, model, data, flags, guard=bool(broken), extra=extra, cold=False)
    missed = [name for name in broken if f"made to fail: {name}" not in done.output]
    assert not missed, f"not reached: {missed}\n{tail(done)}"
    return done


@CAMPAIGN
def test_a_healthy_run_with_all_that_watches_broken_stays_bitwise_equal():
    flags = [*LORA, *evaluated("image")]
    off, on = run("image", flags), run("image", flags, *WATCHING)
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)
    assert {found["code"] for found in on.findings} == {"VG902"}


@CAMPAIGN
def test_gradients_under_deepspeed_and_what_is_said_of_a_blank_input():
    flags = [*TRAINED, *zero(2)]
    off, on = run("phases", flags, model="llava"), run("phases", flags, *DEEPSPEED, model="llava")
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


@CAMPAIGN
@pytest.mark.parametrize("name", MENDING)
def test_a_broken_run_fails_as_without_the_guard(name):
    broken = run("image", [*LORA, *REENTRANT], name) if name != "vlmguard.guard:on_error" else run(
        "image", [*LORA, *REENTRANT, "--vlmguard", "VG101=off"], name
    )  # fmt: skip
    assert broken.returncode != 0
    assert ONCE in broken.output, tail(broken)
    assert not broken.survivors


@CAMPAIGN
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_second_fault_behind_a_first_changes_nothing_either(name):
    broken = run("image", [*LORA, *REENTRANT], FOLLOWED[name], name)
    assert broken.returncode != 0
    assert ONCE in broken.output, tail(broken)
    assert not broken.survivors


@CAMPAIGN
def test_what_cannot_be_said_is_mended_all_the_same():
    off = run("image", [*LORA, *NON_REENTRANT])
    on = run("image", [*LORA, *REENTRANT], "vlmguard.run_report:changed")
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


@CAMPAIGN
def test_a_warning_that_cannot_be_said_stops_nothing():
    unclipped = trainers.tables() / "unclipped.json"  # VG403 warns
    flags = [*LORA, *NON_REENTRANT, "--deepspeed", str(unclipped)]
    off, on = run("image", flags), run("image", flags, "vlmguard.runtime.report:say")
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    assert [rank.losses for rank in on.ranks] == [rank.losses for rank in off.ranks]
    assert [rank.digests for rank in on.ranks] == [rank.digests for rank in off.ranks]


@CAMPAIGN
@pytest.mark.parametrize("name", UNWATCHED)
def test_a_run_that_is_not_found_again_trains_unwatched(name):
    off, on = run("image", LORA), run("image", LORA, name)
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


@CAMPAIGN
def test_flags_that_cannot_be_looked_for_leave_the_rest_at_work():
    broken = run("image", [*LORA, *REENTRANT], "vlmguard_transformers.arguments:take")
    assert broken.returncode == 0, tail(broken)
    assert "VG101" in broken.fixed()


@CAMPAIGN
def test_a_model_that_cannot_be_observed_trains_as_without_the_guard():
    off, on = (
        run("image", [*TRAINED], *names)
        for names in ((), ("vlmguard_transformers.model.observation:_observe",))
    )
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


@CAMPAIGN
def test_settings_that_cannot_be_resolved_leave_the_run_alone():
    done = run("image", [*LORA, *REENTRANT], "vlmguard_transformers.arguments:resolve")
    assert ONCE in done.output or done.returncode == 0, tail(done)


@CAMPAIGN
def test_a_stop_stops_though_torchrun_cannot_be_told():
    told = [*LORA, *REENTRANT, "--vlmguard", "VG101=error"]
    done = run("image", told, "vlmguard.guard:abort")
    assert done.returncode != 0
    assert "VG101 stopped" in done.output, tail(done)
    assert not done.ranks
    assert not done.hung


@CAMPAIGN
def test_a_bad_setting_is_refused_though_not_in_one_line():
    bad = [*LORA, "--vlmguard", "VG999=off"]
    done = run("image", bad, "vlmguard.runtime.refusal:in_one_line")
    assert done.returncode != 0
    assert "no rule has the code VG999" in done.output, tail(done)
    assert not done.ranks


def test_nothing_that_containment_calls_is_forgotten_here():
    """Read from the source: calls of `contain` in what an ms-swift run goes through."""
    every = (*WATCHING, *DEEPSPEED, *MENDING, *FOLLOWED, *ALONE)
    tried = {name.partition(":")[2].rpartition(".")[2] for name in every}
    known = {
        "abort",
        "getattr",  # the standard library's
        "call",  # closers of a run: each is a method of its own
        "check",  # a lambda around freezing.check
        "translate",  # lambdas around translate.run
        "words",  # of files that frameworks other than ms-swift read themselves
        "_settle_keys",  # the same
        "watch", "_saved", "_add",  # the ledger's, tried by tests/plugins/test_ledger_attach.py
        "note",  # of a trainer's accelerator, when it is made
        "_keep_books",  # the ledger's again: test_ledger_attach.py
        "end",  # of the ledger of a rehearsal's pass: rehearse/test_rehearse_books.py
        "_settled",  # in each later step: tests/plugins/test_upset.py
        "_try_blanks", "failed",  # tests/plugins/test_blank_trial.py, tests/core/test_guard.py
        "_rehearse",  # the dry step's: tests/plugins/test_dry_step.py
        "InPhase",  # a loader's: tests/plugins/test_trainer_adapter.py
        "_mark",  # imports phases, of which it calls mark
        "each",  # what reads the order of rows: tests/plugins/test_row_order.py
        "left_idle", "owners",  # a profile's: test_profiles.py, tests/core/test_runs_apart.py
    }
    folders = [envs.ROOT / "plugins" / name for name in ("vlmguard_transformers", "vlmguard_swift")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    called = {name for file in [*files, envs.ROOT / "vlmguard" / "guard.py"] for name in _of(file)}
    assert called <= tried | known, called - tried - known


def _of(file: Path):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "contain":
            target = node.args[1]
            yield target.attr if isinstance(target, ast.Attribute) else target.id
