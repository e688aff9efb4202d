"""The same failures under everything that stands in front of a log's lines."""

from __future__ import annotations

import pytest

from tests.explain import wrapped
from vlmguard_explain.command import STATUS, explain


def told(folder, text):
    path = folder / "train.log"
    path.write_text(text, encoding="utf-8", newline="")
    answer, _ = explain([str(path)])
    return answer


@pytest.mark.parametrize("code", wrapped.ERRORS)
@pytest.mark.parametrize("shape", wrapped.ONE)
def test_class_rank_and_status(tmp_path, shape, code):
    for marked in (True, False):
        lines = wrapped.run(wrapped.ERRORS[code], marked=marked)
        answer = told(tmp_path, wrapped.ONE[shape](lines))
        assert (answer.known.code if answer.known else answer.verdict) == code, (shape, marked)
        assert STATUS[answer.verdict] == (3 if code == "unknown" else 1)
        if marked or shape in wrapped.TELLS_RANK:
            assert answer.ranks == (1,), (shape, marked, answer.how)


@pytest.mark.parametrize("shape", wrapped.ONE)
def test_an_unfinished_run_stays_one(tmp_path, shape):
    """Prefixes neither hide the steps nor make a failure of a warning."""
    if shape in ("deepspeed", "accelerate", "torchrun", "bars", "ray"):
        pytest.skip("its launcher says that it failed")
    lines = [line for line in wrapped.run("ValueError: x", peer=False) if "rank1]" not in line[1]]
    answer = told(tmp_path, wrapped.ONE[shape](lines))
    assert answer.verdict == "unfinished"
    assert answer.facts.steps == (12, 100)
