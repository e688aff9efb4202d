"""`pre_step(batch)` in commands of frameworks: a rule of a third party hears each batch of training
and of evaluation once. Trainers and own loops: tests/frameworks/trainers/test_owners.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kit.turns import turn
from tools.ordinary import campaign, draws

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600), pytest.mark.drawn(2)]
STEPS, ACCUMULATION = 3, 2


def draw(program: str, *features: str) -> draws.Draw:
    """Image rows in one process; KTO's are mixed, an embedder's are texts."""
    made = draws.draw(24, 1, 0)
    rows = {"flagembedding": "text", "trl kto": "phases"}.get(program, "image")
    return replace(
        made, program=program, model="qwen2_vl", strategy="single", rows=rows, steps=STEPS,
        batch=1, accumulation=ACCUMULATION, tuning="full", checkpointing=False, features=features,
    )  # fmt: skip


@pytest.mark.parametrize("program", draws.COMMANDS)
def test_each_training_batch_is_heard_once(program: str) -> None:
    with campaign.working() as workers, turn():
        workers.listen = True
        ended, _ = workers.run(draw(program), "on")
    assert ended["verdict"] == "ok", ended
    heard = ended["ranks"][0]["account"]["heard"]
    assert heard.pop("train") == STEPS * ACCUMULATION
    assert set(heard) <= {"generate"}, "ms-swift's GRPO encodes the prompts that it samples from"


def test_a_script_around_gemini_hears_each_batch_once() -> None:
    booster = replace(draw("gemini", "evaluation"), world=2, strategy="ddp", steps=5)
    with campaign.working() as workers, turn():
        workers.listen = True
        ended, _ = workers.run(booster, "on")
    assert ended["verdict"] == "ok", ended
    for rank in ended["ranks"]:
        heard = {"train": 5 * ACCUMULATION, "eval": rank["account"]["evaluated"]}
        assert rank["account"]["heard"] == heard
        assert heard["eval"] == 2


EVALUATES = [each for each in draws.COMMANDS if each != "flagembedding"]  # it evaluates nothing


@pytest.mark.parametrize("program", EVALUATES)
def test_each_batch_of_evaluation_is_heard_once(program: str) -> None:
    with campaign.working() as workers, turn():
        workers.listen = True
        ended, _ = workers.run(draw(program, "evaluation"), "on")
    assert ended["verdict"] == "ok", ended
    account = ended["ranks"][0]["account"]
    assert account["evaluated"], "the Trainer's own callback counts as well"
    heard = account["heard"]
    if program == "swift grpo":
        del heard["generate"]  # as above
    assert heard == {"train": STEPS * ACCUMULATION, "eval": account["evaluated"]}
