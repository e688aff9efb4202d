"""Whole logs of real commands: class, starting rank, framework; nothing on healthy ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib

from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import cause
from vlmguard_explain.advice.steps import steps as steps_of
from vlmguard_explain.command import explain

LOGS = Path(__file__).parent / "logs" / "real"
REAL = tomllib.loads((Path(__file__).parent / "data" / "real.toml").read_text())


@pytest.mark.parametrize("name", sorted(REAL))
def test_class_and_rank(name):
    expected, rank, _ = REAL[name]
    answer, _ = explain([str(LOGS / f"{name}.log")])
    assert (answer.known.code if answer.known else answer.verdict) == expected
    if rank >= 0:
        assert answer.ranks == (rank,)


@pytest.mark.parametrize(
    ("prefix", "framework"),
    [
        ("sw_", "ms-swift"),
        ("s3_", "ms-swift"),
        ("tr_grpo", "TRL"),
        ("lf_", "LLaMA-Factory"),
        ("fe_", "FlagEmbedding"),
        ("ca_", "ColossalAI"),
    ],
)
def test_framework(prefix, framework):
    names = [name for name in REAL if name.startswith(prefix)]
    answers = [explain([str(LOGS / f"{name}.log")])[0] for name in names]
    assert {answer.facts.framework for answer in answers} == {framework}


def test_every_log_is_listed():
    assert {path.stem for path in LOGS.glob("*.log")} == set(REAL)


FIRST = tomllib.loads((Path(__file__).parent / "data" / "first_steps.toml").read_text())


@pytest.mark.parametrize("name", FIRST)
def test_the_first_step(name):
    answer, _ = explain([str(LOGS.parent / f"{name}.log")])
    assert answer.known is not None
    first = steps_of(answer.known, answer.facts)[0]
    assert flags.say(first, answer.facts).startswith(FIRST[name]["first"])


CAUSE = {
    "made/host_memory": "more memory of the host than was left",
    "made/missing_library": "is not on this machine",
    "made/recomputed": "the block does not do the same twice",
    "made/resume_weights_only": "holds more than tensors",
    "made/state_empty": "other shapes than the model's",
    "more/model_class": "another Auto class",
    "more/uniform_dtype": "several dtypes",
    "real/co_hostfile": "hostfile",
    "real/fe_too_long": "positions",
}


@pytest.mark.parametrize("name", CAUSE)
def test_the_cause_is_true_of_this_log(name):
    """Not that of the failure's most frequent kind."""
    answer, _ = explain([str(LOGS.parent / f"{name}.log")])
    assert answer.known is not None
    assert CAUSE[name] in cause(answer.known, answer.facts)


def test_settings_in_a_dump_are_no_strategy():
    """transformers prints xla_fsdp_v2 among its arguments."""
    answer, _ = explain([str(LOGS / "fe_no_pos.log")])
    assert answer.facts.strategy != "fsdp"
