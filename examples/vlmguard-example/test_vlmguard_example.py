"""A rule is a function: give it a run, look at what it says. Run with pytest; without torch."""

from __future__ import annotations

import vlmguard_example

from vlmguard import Run


def test_it_says_the_framework_and_the_ranks():
    found = vlmguard_example.pre_wrap(Run("any framework", strategy="ddp", world=8))
    assert (found.code, found.level) == ("XM101", "note")
    assert "any framework on 8 ranks" in found.why
