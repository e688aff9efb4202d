"""Every failure that was caused: its class, and the rank where it started."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.explain.causes import CAUSES
from tests.explain.causes_more import MORE
from vlmguard_explain.command import explain

LOGS = Path(__file__).parent / "logs"
ALL = {f"made/{name}": (code, rank) for name, (code, _, rank, _) in CAUSES.items()}
ALL |= {f"more/{name}": (code, rank) for name, (_, code, _, rank, _) in MORE.items()}


@pytest.mark.parametrize("name", sorted(ALL))
def test_class_and_rank(name):
    """More: the same failures by other frameworks, releases and strategies."""
    code, rank = ALL[name]
    answer, _ = explain([str(LOGS / f"{name}.log")])
    assert (answer.known.code if answer.known else "") == code
    assert answer.verdict == ("explained" if code else "unknown")
    if rank is not None:
        assert answer.ranks == (rank,)


def test_thirty_classes_of_three_causes():
    causes = Counter(code for code, _ in ALL.values())
    assert sum(count >= 3 for code, count in causes.items() if code) >= 30


def test_what_followed_is_not_what_started():
    """Rank 1's own exception, not rank 0's lost connection, and where it was raised."""
    answer, _ = explain([str(LOGS / "made" / "peer_type_error.log")])
    assert answer.pick.event.type == "TypeError"
    assert answer.pick.event.where[0].endswith("train.py")
    assert answer.how == "torchrun's first observed failure"
