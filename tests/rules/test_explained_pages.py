"""Pages of VG5xx say when a step is meant, and an answer says no more than the log does."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmguard_explain.command import main
from vlmguard_explain.match.catalogue import load, table
from vlmguard_explain.rules import page
from vlmguard_explain.source import sources


def test_a_step_for_some_runs_says_for_which():
    text = " ".join(page("VG512").split())
    assert "if it failed in an evaluation: - an evaluation batch of 1" in text
    assert "if the log says `in replica`: - `torchrun" in text


def test_every_condition_in_words_is_one_that_a_step_has():
    used = {condition for known in load() for step in known.steps for condition in step.run}
    assert set(table("conditions")) <= used


@pytest.mark.parametrize(
    ("beside", "rank"), [((), None), (("0.log",), 17), (("1.log", "16.log"), None)]
)
def test_a_bare_number_is_a_rank_only_beside_0(tmp_path: Path, beside: tuple[str, ...], rank):
    for name in ("17.log", *beside):
        (tmp_path / name).write_text("step 1\n")
    found = {source.path.name: source.rank for source in sources.find([str(tmp_path / "17.log")])}
    assert found["17.log"] == rank


LEAF = """  File "/job/modeling_qwen.py", line 657, in forward
    hidden_states[i][a + 1 : b] = images[idx]
RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.
"""


def test_the_step_names_the_tensor_that_the_failing_line_writes_into(tmp_path: Path, capsys):
    (tmp_path / "run.log").write_text(LEAF)
    main([str(tmp_path / "run.log")])
    answer = capsys.readouterr().out
    assert "1. hidden_states = hidden_states.clone()" in answer


def test_a_place_that_was_cut_says_so(tmp_path: Path, capsys):
    (tmp_path / "run.log").write_text(LEAF.replace("/job", "/job" + "/deep" * 60))
    main([str(tmp_path / "run.log")])
    answer = capsys.readouterr().out
    assert " at …" in answer.splitlines()[0]
