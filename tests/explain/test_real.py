"""Whole logs of real commands: class, starting rank, framework; nothing on healthy ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.causes_real import REAL
from vlmguard.explain.command import explain

LOGS = Path(__file__).parent / "logs" / "real"


@pytest.mark.parametrize("name", sorted(REAL))
def test_class_and_rank(name):
    expected, rank, _ = REAL[name]
    answer, _ = explain([str(LOGS / f"{name}.log")])
    assert (answer.known.code if answer.known else answer.verdict) == expected
    if rank is not None:
        assert answer.ranks == (rank,)


@pytest.mark.parametrize(
    ("prefix", "framework"), [("sw_", "ms-swift"), ("tr_grpo", "TRL"), ("lf_", "LLaMA-Factory")]
)
def test_framework(prefix, framework):
    names = [name for name in REAL if name.startswith(prefix)]
    answers = [explain([str(LOGS / f"{name}.log")])[0] for name in names]
    assert {answer.facts.framework for answer in answers} == {framework}


def test_every_log_is_listed():
    assert {path.stem for path in LOGS.glob("*.log")} == set(REAL)
