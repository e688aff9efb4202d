"""The line of source under a frame."""

from __future__ import annotations

import pytest

from vlmguard.explain import codeline
from vlmguard.explain.command import explain
from vlmguard.explain.show import text

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


def test_a_stage_of_a_pipeline_that_got_nothing(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        'Traceback (most recent call last):\n  File "/w/finetune.py", line 262, in <module>\n'
        "    outputs = booster.execute_pipeline(rows, model, criterion, optimizer)\n"
        '  File "/e/site-packages/colossalai/shardformer/modeling/llama.py", line 61, in forward\n'
        "    input_shape = hidden_states.shape[:-1]\n"
        "AttributeError: 'NoneType' object has no attribute 'shape'\n"
    )
    said = text(*explain([str(path)]))
    assert "  - HybridParallelPlugin(…, pp_size=1, …)  # in /w/finetune.py, with a larger" in said
