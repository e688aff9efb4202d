"""The line of source under a frame."""

from __future__ import annotations

import pytest

from vlmguard.explain import codeline

PLACE = ("/w/train.py", 7, "main")


@pytest.mark.parametrize(
    ("trace", "code"),
    [
        (['  File "/w/train.py", line 7, in main', "    trainer.train()", "    ^^^^^^^"],
         "trainer.train()"),
        (['  File "/w/train.py", line 7, in main', '  File "/x/a.py", line 1, in f'], ""),
        (['  File "/w/train.py", line 7, in main'], ""),
        (['  File "/w/train.py", line 7, in main', "ValueError: no"], ""),
        (["│ /w/train.py:7 in main       │", "│                             │",
          "│     6 │   x = 1             │", "│ ❱   7 │   trainer.train()   │",
          "│     8 │   y = 2             │"], "trainer.train()"),
        (['  File "/w/train.py", line 7, in main', "    a(" + "b, " * 90 + ")"],
         ("a(" + "b, " * 90)[:138] + " …"),
    ],
)
def test_of(trace, code):
    assert codeline.of(trace, PLACE) == code
