"""What the matrix covers, how it is recorded and shown: no run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from tools.matrix import cells, records
from tools.matrix.cells import Cell, astuple
from tools.pages import matrix_page

ROOT = Path(__file__).resolve().parents[2]


def told(key: str, off: str = "hang", on: str = "right") -> dict:
    sides = {"message": "a|b <c>", "error": 2e-7, "seconds": 1.0}
    return records.make(
        key, {"verdict": off, "digest": "x", **sides},
        {"verdict": on, "did": ["VG106 fixed"], "bitwise": False, **sides},
        {"torch": "2.13.0"}, "0123456", cells.SEED,
    )  # fmt: skip


def test_every_pair_of_values_is_covered_by_the_first_cells():
    chosen = cells.cells()[: cells.pairs()]
    covered = set().union(*map(cells.wanted, chosen))
    axes = [cells.CLASSES, cells.STRATEGIES, cells.TUNINGS, cells.ORDERS]
    for (i, one), (j, other) in itertools.combinations(enumerate(axes), 2):
        for pair in itertools.product(one, other):
            missing = ((i, pair[0]), (j, pair[1])) not in covered
            assert missing == (pair[1] == "gemini" and pair[0] in cells.NOT_ON_GEMINI), pair
    assert len(chosen) <= 90


def test_every_class_is_with_every_strategy_and_tuning():
    chosen = {astuple(cell)[:3] for cell in cells.cells()}
    assert chosen == {astuple(cell)[:3] for cell in cells.every()}
    assert len(cells.cells()) == len(set(cells.cells()))


def test_the_order_is_the_seeds_alone():
    assert cells.drawn.__wrapped__(cells.SEED) == cells.drawn(cells.SEED)
    assert cells.cells(1) != cells.cells(2)


def test_a_cells_name_is_the_cell():
    for cell in cells.cells():
        assert Cell.parse(cell.key) == cell


def test_records_are_kept_one_a_cell_and_a_line_that_was_cut_off_is_not(tmp_path):
    file = tmp_path / "matrix.jsonl"
    one, other = (cell.key for cell in cells.cells()[:2])
    records.put(told(other), file)
    records.put(told(one, on="broken"), file)
    records.put(told(one), file)
    with file.open("a") as end:
        end.write('{"cell": "half')
    kept = records.load(file)
    assert list(kept) == [one, other]
    assert kept[one]["on"]["verdict"] == "right"
    assert "digest" not in json.dumps(kept)


def test_the_page_counts_and_lists():
    shown = [told("llava/zero3/lora/differ"), told("gemma3/ddp/trained/both", "right", "broken")]
    text = matrix_page.text(shown)
    assert "| hang | 1 | 1 | – | – | – | – |" in text
    assert "| right | 1 | – | – | – | 1 | – |" in text
    assert "- `gemma3/ddp/trained/both` broken: a\\|b &lt;c>" in text
    assert "| LLaVA-1.5 | ZeRO-3 | LoRA, tower frozen | ranks differ | hang | right |" in text
    assert f"There are {len(cells.cells())} cells" in text
    every = {part for cell in cells.cells() for part in astuple(cell)}
    assert every == set(matrix_page.NAMES)


def test_no_command_that_was_run_is_broken():
    """What is kept of tools/matrix/commands.py, whose names are those of the framework tests."""
    file = ROOT / "compat" / "commands.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    kept = [json.loads(line) for line in lines]
    for each in kept:
        assert each["on"]["verdict"] in ("right", "stopped"), each
        assert each["off"]["verdict"] in ("right", "wrong", "hang", "crash", "mismatch"), each
    failing = [each for each in kept if each["off"]["verdict"] != "right"]
    assert sum(each["on"]["verdict"] == "right" for each in failing) >= 0.75 * len(failing)
