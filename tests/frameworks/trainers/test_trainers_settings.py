"""Flags, YAML keys and freeze policies in real commands of TRL and LLaMA-Factory; stops."""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.trainers.cases import (
    ALL,
    CHECKPOINTS,
    LORA,
    NONE,
    ONE_LOSS,
    REENTRANT,
    TOWER,
    TWO_FORWARDS,
    sft,
)
from tests.kit import trainers
from tests.kit.oracle import compare
from tests.kit.trainers import llamafactory, loop, plain, zero

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(2)]
WANTED = ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']


def tail(outcome):
    return outcome.output[-3000:]


def said(outcome, text):
    """How many lines say it."""
    return sum(text in line for _, line in outcome.lines)


def test_an_unknown_word_stops_trls_launcher_before_there_are_ranks():
    done = trainers.run(sft("image", "--vlmguard-freeze", "visoin"), guard=True)
    assert done.returncode != 0
    assert said(done, "freeze: 'visoin' matches no parameter (did you mean vision?)") == 1
    assert "Traceback" not in done.output, tail(done)
    assert "ChildFailedError" not in done.output


def test_a_broken_key_stops_llamafactory_before_weights_are_loaded():
    done = trainers.run(llamafactory("image", vlmguard_frezze="vision"), guard=True)
    assert done.returncode != 0
    assert said(done, "vlmguard: unknown flag --vlmguard-frezze") == 1, tail(done)
    assert "Loading weights" not in done.output


def test_text_alone_in_one_process_sees_nothing_of_us():
    words = ["python", str(trainers.PROGRAMS / "language.py"), "--model", "{model}"]
    alone = trainers.Command([*words, *trainers.COMMON, *trainers.ON_CPU, *CHECKPOINTS])
    done = trainers.run(alone, guard=True, ranks=1)
    assert done.returncode == 0, tail(done)
    assert "train_runtime" in done.output
    assert "vlmguard" not in done.output, tail(done)
    assert any(record["kind"] == "header" for record in done.report()), "it was not guarded"


def test_two_forwards_are_stopped_before_the_first_optimizer_step():
    off, on = (trainers.run(TWO_FORWARDS, guard=guard) for guard in (False, True))
    reference = trainers.run(ONE_LOSS, guard=False)
    assert (off.returncode, reference.returncode) == (0, 0), tail(off)
    assert not compare(off.ranks, reference.ranks)
    assert on.returncode != 0
    assert not on.ranks
    block = on.output[on.output.rindex("Root Cause") :]
    assert "VG103" in block, tail(on)
    assert "use_reentrant" in block


def _frozen(outcome, word):
    """Whether something moved, and nothing of a name with ``word`` in it."""
    assert outcome.returncode == 0, tail(outcome)
    for rank in outcome.ranks:
        moved = [n for n, weight in rank.initial.items() if not weight.equal(rank.final[n])]
        assert moved
        assert not [name for name in moved if word in name]


def _freezes(command, **extra):
    _frozen(trainers.run(command, guard=True, extra=extra, cold=False), "visual")


@pytest.mark.campaign
@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_llamafactorys_own_words_freeze(tuning):
    keys = {"vlmguard_freeze": ["vision_tower", "multi_modal_projector"]}
    _freezes(llamafactory("iv", tuning=tuning, **TOWER, **keys))


@pytest.mark.campaign
@pytest.mark.parametrize("words", [["vision", "aligner"], ["model.visual"], ["model.visual.*"]])
@pytest.mark.parametrize("lora", [[], ALL], ids=["full", "lora"])
def test_towers_paths_and_globs_freeze_in_a_script_of_the_users(words, lora):
    _freezes(plain("image", *CHECKPOINTS, *lora, "--vlmguard-freeze", *words))


@pytest.mark.campaign
@pytest.mark.parametrize("lora", [[], LORA], ids=["full", "lora"])
def test_towers_freeze_in_trl(lora):
    _freezes(sft("image", *lora, "--vlmguard-freeze", "vision", "aligner"))


@pytest.mark.campaign
@pytest.mark.parametrize("lora", [[], ALL], ids=["full", "lora"])
def test_towers_freeze_in_a_loop_by_the_environment(lora):
    _freezes(loop("image", *lora), VLMGUARD_FREEZE="vision aligner")


@pytest.mark.campaign
def test_a_forced_variant_is_said_and_given_back_under_fix():
    forced = sft("image", *LORA, *WANTED, *zero(3))
    same = {"VLMGUARD_TEST_SAME_ADAPTERS": "1"}  # under ZeRO-3 LoRA draws its weights otherwise
    run = functools.partial(trainers.run, extra=same, cold=False)
    told = run(forced, guard=True)
    fixed = run(forced.also("--vlmguard", "VG111=fix"), guard=True)
    reference = run(sft("image", *LORA, *NONE), guard=False)
    assert "VG111" in {finding["code"] for finding in told.findings}, tail(told)
    assert {finding["level"] for finding in told.findings} <= {"note"}
    assert "use_reentrant: True → False" in fixed.output, tail(fixed)
    for each in (told, fixed):
        verdict = compare(each.ranks, reference.ranks)
        assert verdict, str(verdict)


@pytest.mark.campaign
def test_a_policy_leaves_a_crash_and_explains_it():
    command = plain("image", *CHECKPOINTS, *REENTRANT, "--lora", ".*", "--vlmguard", "VG1=off")
    done = trainers.run(command, guard=True, cold=False)
    assert done.returncode != 0
    assert "VG501 explained" in done.output, tail(done)
