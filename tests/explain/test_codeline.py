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
        ("m = max(lengths)", "ValueError: max() arg is an empty sequence",
         "/w/train.py:31: max(lengths, default=0) in its place"),
        ("nxt = self.stages[i + 1]", "IndexError: list index out of range",
         "/w/train.py:31: self.stages[min(i + 1, len(self.stages) - 1)] in its place"),
        ("nxt = self.stages[i]", "IndexError: list index out of range",
         "/w/train.py:31: print(len(x)) of what is indexed"),
        ("img = cache.pop(key)", "KeyError: 'img_0012'", "/w/train.py:31: cache.pop(key, None) in"),
        ("n = total + self.extra",
         "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
         "/w/train.py:31: (self.extra or 0) in place of self.extra, which is None"),
        ("ppl = math.exp(loss.item())", "OverflowError: math range error",
         "/w/train.py:31: math.exp(min(loss.item(), 50)) in its place"),
        ("e = math.log(p)", "ValueError: math domain error",
         "/w/train.py:31: math.log(max(p, 1e-12)) in its place"),
        ("lr = float(row['lr'])", "ValueError: could not convert string to float: ''",
         "/w/train.py:31: float(row['lr'] or 0) in its place"),
        ("batch = next(self.it)", "StopIteration",
         "/w/train.py:31: batch = next(self.it, None), and if batch is None: self.it = iter("),
        ("k = random.sample(pool, 8)", "ValueError: Sample larger than population or is negative",
         "/w/train.py:31: random.sample(pool, min(8, len(pool))) in its place"),
        ("i = np.random.choice(n, p=w)", "ValueError: probabilities do not sum to 1",
         "/w/train.py:31: p=np.asarray(w, dtype=float) / np.sum(w) in its place"),
        ("x = int(m.group(1))", "AttributeError: 'NoneType' object has no attribute 'group'",
         "if m is None: continue (return, outside of a loop), on a line in front of /w/train.py"),
        ("self.buf[step % self.n] = v", "ZeroDivisionError: integer modulo by zero",
         "/w/train.py:31: max(self.n, 1) in its place"),
        ("state = self.q.popleft()", "IndexError: pop from an empty deque",
         "/w/train.py:31: self.q.popleft() if self.q else None, in its place"),
        ("it = self.pool.pop()", "IndexError: pop from empty list",
         "/w/train.py:31: self.pool.pop() if self.pool else None, in its place"),
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
