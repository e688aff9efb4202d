"""Flags, YAML keys and freeze policies in real commands of TRL and LLaMA-Factory; stops."""

from __future__ import annotations

import pytest

from tests.frameworks.trainers.cases import (
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
from tests.kit.trainers import llamafactory, plain, zero

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
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


@pytest.mark.campaign
def test_llamafactorys_own_words_freeze():
    keys = {"vlmguard_freeze": ["vision_tower", "multi_modal_projector"]}
    _frozen(trainers.run(llamafactory("iv", **TOWER, **keys), guard=True), "visual")


@pytest.mark.campaign
@pytest.mark.parametrize("word", ["vision", "model.visual.*"])
def test_towers_and_globs_freeze_in_a_script_of_the_users(word):
    command = plain("image", *CHECKPOINTS, "--vlmguard-freeze", word, "aligner")
    _frozen(trainers.run(command, guard=True), "visual")


@pytest.mark.campaign
def test_a_forced_variant_is_said_and_given_back_under_fix():
    forced = sft("image", *LORA, *WANTED, *zero(3))
    told = trainers.run(forced, guard=True)
    fixed = trainers.run(forced.also("--vlmguard", "VG111=fix"), guard=True)
    reference = trainers.run(sft("image", *LORA, *NONE), guard=False)
    assert "VG111" in {finding["code"] for finding in told.findings}, tail(told)
    assert {finding["level"] for finding in told.findings} <= {"note"}
    assert "use_reentrant: True → False" in fixed.output, tail(fixed)
    for run in (told, fixed):
        verdict = compare(run.ranks, reference.ranks)
        assert verdict, str(verdict)


@pytest.mark.campaign
def test_a_policy_leaves_a_crash_and_explains_it():
    command = plain("image", *CHECKPOINTS, *REENTRANT, "--lora", ".*", "--vlmguard", "VG1=off")
    done = trainers.run(command, guard=True)
    assert done.returncode != 0
    assert "VG501 explained" in done.output, tail(done)
