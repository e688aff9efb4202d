"""What lowers "right": a flag that was not rehearsed as it stands, and what `check` knows."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from vlmguard.rehearse.argv import left_out
from vlmguard.rehearse.verdict import AS_SHOWN, beside, lowered
from vlmguard_swift import rehearse_table
from vlmguard_transformers.rehearsal import cpu_flags

ROOT = Path(__file__).resolve().parents[2]
GIVEN = "--lr 1e-4 --metric best --resume --bf16 True --on --rows a b --calm 1".split()


SHORT = "--lr 1e-4 --on --bf16 false --rows a b".split()
OTHER = "--lr 1e-4 --metric other --resume --on --bf16 true --rows b a".split()
SPELT = "--lr 0.0001 --metric best --resume true --bf16 true --on --rows a b".split()


@pytest.mark.parametrize(
    ("ran", "names"),
    [([GIVEN], []), ([SPELT], []), ([SHORT], ["metric", "resume", "bf16"]),
     ([SHORT, ["--bf16", "true"]], ["metric", "resume"]), ([OTHER], ["metric", "rows"])],
)  # fmt: skip
def test_a_flag_that_was_in_no_run_as_given_is_named(ran, names):
    found = left_out(GIVEN, ran, {"calm"}, ("--resume: begins at step 0",))
    assert [text.partition(":")[0] for text in found] == [f"--{name}" for name in names]
    assert all(text.partition(": ")[2] for text in found), "none with an empty reason"
    assert ("--resume: begins at step 0" in found) == ("resume" in names)


@pytest.mark.parametrize("name", ["flagembedding", "llamafactory", "swift", "trl"])
def test_each_flag_that_is_dropped_without_a_note_has_a_reason(name):
    hooks = importlib.import_module(f"vlmguard_{name}.rehearse")
    own = getattr(hooks, "_DROPPED", None) or rehearse_table.DROPPED
    silent = {flag for names, why in (*own, *cpu_flags._DROPPED) if not why for flag in names}
    assert silent <= set(hooks.REASONS) | set(hooks.HARMLESS), silent
    found = left_out(["--load_best_model_at_end", "--odd", "1"], [[]], (), (), hooks.REASONS)
    assert found == ["--load_best_model_at_end: evaluation, and what is chosen by it, was not "
                     "rehearsed with this", "--odd: not rehearsed"]  # fmt: skip


RIGHT = {"verdict": "right", "exit": 0, "why": ""}
CRASH = {"verdict": "crash", "exit": 1, "why": ""}


def test_right_is_not_said_under_what_is_known():
    assert lowered(RIGHT, [])["exit"] == 0
    assert lowered(RIGHT, ["--a: b"])["exit"] == AS_SHOWN == 3
    assert lowered(CRASH, ["--a: b"])["exit"] == 1
    told = beside(RIGHT, ["VG106 hangs"], [])
    assert (told["verdict"], told["exit"]) == ("cannot tell", 2)
    assert "VG106 hangs" in told["why"]
    assert beside(CRASH, ["VG106 hangs"], [])["exit"] == 1
    assert beside(RIGHT, [], ["VG622 too large"])["left_out"] == ["check: VG622 too large"]
    assert beside(RIGHT, [], ["x"])["exit"] == 3
    assert beside(RIGHT, [], []) == {**RIGHT, "left_out": []}


def test_a_bare_install_is_told_in_one_line(tmp_path):
    """No traceback: neither for what is not installed, nor for a script that is not there."""
    code = ("import sys; sys.modules['numpy'] = None\nfrom vlmguard.cli import rehearse\n"
            "sys.exit(rehearse.main(sys.argv[1:]))")  # fmt: skip
    for words, told in ((["nofile.sh"], "No such file"), (["--", "swift", "sft"], "numpy is not")):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "PATH": "/bin"}, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert told in done.stderr


PLUGIN = """
NAME = "broken"
def load():
    try:
        import nowhere_at_all
    except ImportError as error:
        raise RuntimeError("Failed to import broken.models, look up") from error
"""


def test_an_import_that_fails_is_told_with_its_first_cause(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "rehearse.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-m", "vlmguard.rehearse.worker", "broken"], text=True, check=False,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}:{tmp_path}", "PATH": "/bin"},
        stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == "its imports fail: ModuleNotFoundError: No module named 'nowhere_at_all'"


TEXT = {"messages": [{"role": "user", "content": "a"}]}
ODD = {"another kind": {**TEXT, "images": ["a.png"]}, "another column": {**TEXT, "tools": "[]x"},
       "an empty column": {"messages": []}}  # fmt: skip


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("at", [0, 499, 501, 650, 699])
@pytest.mark.parametrize("shuffled", [True, False])
def test_one_odd_row_of_many_is_among_those_rehearsed(odd, at, shuffled, tmp_path):
    pytest.importorskip("numpy")
    from vlmguard.rehearse import training_rows

    many = [TEXT] * 700
    many[at] = odd
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in many))
    sample = training_rows.sample([str(path)], shuffled)
    assert odd in sample.rows
    cells = training_rows.arranged(sample, training_rows.orders(sample, 2, False, False), 2, 1, 1)
    assert any(odd in batch for cell in cells for batch in cell)


def test_rows_that_are_alike_are_sampled_as_before(tmp_path):
    pytest.importorskip("numpy")
    from vlmguard.rehearse import training_rows

    path = tmp_path / "d.jsonl"
    mixed = [{**TEXT, "images": ["a.png"] * (at % 2)} for at in range(700)]
    path.write_text("".join(json.dumps(row) + "\n" for row in mixed))
    assert list(training_rows.sample([str(path)], False).rows) == mixed[:500]
    assert len(training_rows.sample([str(path)], True).rows) == 500
