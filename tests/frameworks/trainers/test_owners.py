"""A run is taken up when its model is final and let go with its owner; rules hear every batch once.
A plain Trainer and accelerate's loops, in one process: the same weights as without us."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit import runs, warm

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
PROGRAM = runs.KIT / "programs" / "owners.py"
ENV = "trl"


def lived(guard: bool) -> dict[str, Any]:
    """What each scene of owners.py told."""

    def make(folder: Path) -> runs.Outcome:
        variables = runs.variables(ENV, folder, guard)
        words = [str(PROGRAM), str(folder / "work")]
        return warm.execute(ENV, words, folder, variables, world=1, timeout=300, quiet=100)

    done = runs.once(["owners", guard], make)
    assert done.returncode == 0, done
    assert guard or "vlmguard:" not in done.output
    return {name: json.loads(told) for name, told in re.findall(r"SCENE (\w+) (.*)", done.output)}


HEALTHY = (
    "model_init model_init_of_text searched own_step longer_step own_accelerator interrupted twice "
    "replaced_parameters replaced_model terminated out_of_memory smaller_batch nested "
    "copied freed loops_freed loop_let_go threads two_accelerators two_models two_optimizers"
).split()


@pytest.mark.parametrize("scene", HEALTHY)
def test_the_same_to_the_last_bit_and_nothing_left(scene: str) -> None:
    off, on = lived(False)[scene], lived(True)[scene]
    assert "raised" not in off
    assert on == off


@pytest.mark.parametrize("which", ["own_step", "model_init", "replaced_model"])
def test_a_tower_without_gradients_is_seen(which: str) -> None:
    """In a step of one's own, as MiniCPM-V's and VLM2Vec's trainers have it; in a model that is
    made inside train; in one that a callback puts in the place of the trainer's."""
    told = lived(True)[f"{which}_broken"]
    assert "VG302" in told["stopped"], told
    assert told["hooks"] == 0
    assert "weights" in lived(False)[f"{which}_broken"], "trains on, wrongly"


def test_a_model_prepared_again_is_one_run() -> None:
    off, on = lived(False)["loop_prepared_again"], lived(True)["loop_prepared_again"]
    assert on["weights"] == off["weights"]
    first, freed, again, twice, other = on["counts"]
    assert (freed, other) == (0, 0), "let go of with what it belonged to"
    assert first == again == twice > 0


def test_a_training_is_judged_once() -> None:
    """Also that of a Trainer which makes its accelerator itself, as LLaVA-NeXT's."""
    off, on = lived(False)["judged"], lived(True)["judged"]
    assert [told for told, _ in on] == [told for told, _ in off]
    assert [phases for _, phases in on] == [["train"]] * 3


def test_rules_hear_each_batch_of_a_trainer_once() -> None:
    """Plain, with a step of its own, and with one that calls what it inherits."""
    off, on = lived(False)["heard_in_trainers"], lived(True)["heard_in_trainers"]
    trained = {"eval image (1, 24)": 3, "train image (1, 24)": 5, "train text (1, 24)": 1}
    for number in (0, 2, 4):
        assert on[number] == [off[number][0], trained]
        assert on[number + 1] == {"eval image (1, 24)": 5}, "three rows evaluated, two predicted"


def test_rules_hear_each_batch_of_a_loop_once() -> None:
    off, on = lived(False)["heard_in_a_loop"], lived(True)["heard_in_a_loop"]
    assert on == [off[0], {"eval image (1, 24)": 2, "train image (1, 24)": 3}]
