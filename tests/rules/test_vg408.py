"""The warning about releases that gloo refuses, by the committed tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Checkpointing, Run
from vlmguard.rules import vg408_gloo_refuses as rule

RUN = Run("x", {"torch": "2.8.0", "deepspeed": "0.18.9"}, "zero2", 2,
          checkpointing=Checkpointing(True, False))  # fmt: skip


@pytest.mark.parametrize("release", ["0.18.7", "0.18.9"])
@pytest.mark.parametrize("strategy", ["zero1", "zero2"])
def test_warns_where_gloo_fails(release, strategy):
    run = replace(RUN, strategy=strategy, releases={**RUN.releases, "deepspeed": release})
    finding = rule.pre_wrap(run)
    assert finding.level == "warning"
    assert "SplitBackward0" in finding.why


def test_silent_elsewhere():
    for change in ({"strategy": "zero3"}, {"strategy": "ddp"}):
        assert rule.pre_wrap(replace(RUN, **change)) is None
    for release in ("0.18.6", "0.19.0", "0.19.8"):
        assert (
            rule.pre_wrap(replace(RUN, releases={"torch": "2.8.0", "deepspeed": release})) is None
        )


def test_the_tables_say_both():
    choice = compat.choose(RUN)
    assert choice.verdict == "works"
    assert len(choice.notes) == 1
