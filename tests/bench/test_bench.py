"""The benchmarks' machinery on a few pairs; their bars are `make bench`'s affair."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench import __main__ as bench
from tools.bench import armed, measure, startup
from tools.pages import measured

ROOT = Path(__file__).resolve().parents[2]


def test_the_interval_holds_the_median_as_often_as_it_says():
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        found = measure.median([draw.expovariate(1) for _ in range(41)])
        held += found.low <= 0.6931 <= found.high
        assert found.low <= found.median <= found.high
    assert 0.93 < held / 400 <= 1
    assert measure.median([3.0]) == measure.Median(3.0, 3.0, 3.0)


def test_a_command_that_fails_is_no_figure():
    with pytest.raises(RuntimeError, match="exit 3"):
        measure.command([sys.executable, "-S", "-c", "raise SystemExit(3)"], {})


def test_what_costs_something_is_seen_to():
    """5 ms of work beside none, and a bar between them."""

    def work():
        until = measure.time.process_time() + 0.005
        while measure.time.process_time() < until:
            pass

    found = measure.pairs(
        lambda: measure.called(work), lambda: measure.called(lambda: None), 5
    )
    row = measure.more("work", found, "ms", 1.0).data()
    assert 5 <= row["cpu"]["median"] < 50
    assert row["met"] is False
    assert measure.more("work", found, "ms", 50.0).data()["met"] is True


def test_the_time_in_our_import_hook_is_seen(tmp_path):
    ours, null = armed.two(tmp_path)
    every = startup.inside(ours, "json", startup.variables(), 3)
    assert 0 < every.low <= every.high < 50
    with pytest.raises(RuntimeError, match="exit 1"):  # no hook there
        startup.inside(null, "json", startup.variables(), 1)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "name",
    [
        "start",
        "pre_step",
        "watch",
        "agreement",
        pytest.param("explain", marks=pytest.mark.frameworks),  # slow
    ],
)
def test_a_part_measures_something(name):
    found = bench.run(name, quick=True)
    assert found["rows"]
    for row in found["rows"]:
        assert row["cpu"]["low"] <= row["cpu"]["median"] <= row["cpu"]["high"]
    assert found["machine"]["cores"]


WAITS = """
import contextlib, datetime
from tools.bench import agreement
decide = agreement._start
def start(store, number, size):
    with contextlib.suppress(Exception):
        store.wait(["never"], datetime.timedelta(seconds=0.2))
    return decide(store, number, size)
agreement._start = start
agreement.measured(2)
"""


@pytest.mark.frameworks
def test_a_line_of_torchs_ends_the_measurement_of_agreement():
    """A blocking `wait` that runs out of its time has torch print a warning."""
    pytest.importorskip("torch.distributed")
    around = {**os.environ, "RES_OPTIONS": "timeout:1 attempts:1"}  # it looks up names
    done = subprocess.run([sys.executable, "-c", WAITS], cwd=ROOT, env=around, text=True,
                          capture_output=True)  # fmt: skip
    assert re.search(r"RuntimeError: \d+ lines were printed: .*waitForInput", done.stderr), done


@pytest.mark.frameworks
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["step", "mends", "ledger"])
def test_a_part_with_a_framework_measures_something(name):
    rows = bench.run(name, quick=True)["rows"]
    assert rows
    assert all(row["cpu"]["median"] > 0 for row in rows if row["unit"] == "×"), rows


def test_the_pages_say_what_was_measured():
    for name, text in measured.pages().items():
        assert (ROOT / "docs" / name).read_text("utf-8") == text, "run python -m tools.pages"


def test_a_missed_bar_is_told():
    row = measure.Row("work", "ms", measure.Median(2, 1.5, 3), 9, bar=1.0).data()
    lost = measure.Row("more", "ms", measure.Median(2, -1, 3), 9, bar=1.0).data()
    section = {"rows": [row, lost], "taken": "2026-01-01", "machine": bench.machine()}
    text = measured.benchmarks({"start": section})
    assert "| work | 2.00 ms (1.500 to 3.00) |  | **missed**, ≤ 1 | 9 |" in text
    assert "| more | 2.00 ms (-1.000 to 3.00) |  | not decided, ≤ 1 | 9 |" in text
    assert "Not measured yet." in text  # the other parts


def test_every_part_is_on_the_page_with_how_long_it_takes():
    assert set(measured.PARTS) == set(bench.PARTS)
    assert {name: lasting for name, (lasting, _) in bench.PARTS.items()} == measured.LASTING


def test_the_committed_figures_are_of_whole_runs():
    kept = json.loads(bench.RESULTS.read_text("utf-8")) if bench.RESULTS.exists() else {}
    assert set(kept) <= set(bench.PARTS)
