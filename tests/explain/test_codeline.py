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


TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 31, in f\n    {}\n{}\n'


@pytest.mark.parametrize(
    ("code", "said", "step"),
    [
        ("return (step - start) / (end - start)", "ZeroDivisionError: division by zero",
         "/w/train.py:31: if end == start: return 1.0, on a line in front of it"),
        ("x = step / (end - start)", "ZeroDivisionError: division by zero\n 12%|#   | 160/1300",
         "/w/train.py:31: (end - start or 1) in place of the divisor"),
        ('assert stage >= self.stage, f"back: {stage}"',
         "AssertionError: back: 1\nsrun: error: a100-3: task 0: Exited with exit code 1",
         "stage = max(self.stage, stage)  # on a line in front of /w/train.py:31"),
        ("assert size >= self.most", "AssertionError", "sed -n 23,34p /w/train.py"),
    ],
)
def test_the_edit_that_the_line_tells(tmp_path, code, said, step):
    path = tmp_path / "train.log"
    path.write_text(TRACE.format(code, said))
    told = text(*explain([str(path)]))
    assert f"type next:\n  - {step}" in told
    assert "it printed back: 1\n" in told or "back" not in code
    assert "12%" not in told
