"""One folder of runs for all processes of a test session, so that they share references; and which
of many cases `make test` draws."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.kit import cells, runs, seeds, turns

SEED, TURNS = "VLMGUARD_TEST_SEED", "VLMGUARD_TEST_TURNS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--draw", action="store_true", help=f"of files marked `drawn` a sample only ({SEED})"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name the folder and the seed in the environment before pytest-xdist starts its workers.

    Captured weights are large: what was made here is not kept. Set VLMGUARD_TEST_SESSION to a
    folder to keep the runs, and to find them made the next time.
    """
    if "VLMGUARD_TEST_SESSION" not in os.environ:
        config.add_cleanup(lambda: shutil.rmtree(runs.session(), ignore_errors=True))
        runs.session()
    os.environ.setdefault(SEED, str(seeds.seed(SEED)))
    os.environ.setdefault(TURNS, str(runs.session() / "turns.tsv"))


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"drawn with {SEED}={os.environ[SEED]}" if config.getoption("--draw") else None


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if header := pytest_report_header(config):
        terminalreporter.write_line(header)
    spent = turns.spent(Path(os.environ[TURNS]))
    terminalreporter.write_line(f"real runs took {sum(spent.values()):.0f} s, one after the other:")
    for file, seconds in spent.items():
        terminalreporter.write_line(f"{seconds:7.0f} s  {file}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a file marked ``drawn(count, always=…)`` keep what is always run and ``count`` others.

    Where tests are parametrized the cases are drawn, else the tests. Those of
    campaigns are not among them.
    """
    if not config.getoption("--draw"):
        return
    kept = [item for item in items if _name(item) is None or _name(item) in _chosen(item, items)]
    left = [item for item in items if item not in set(kept)]
    config.hook.pytest_deselected(items=left)
    for item in left:
        cells.LEFT_OUT.setdefault(item.path, set()).add(str(_name(item)))
    items[:] = kept


def _name(item: pytest.Item) -> str | None:
    """The case's name, the same for each test of it, or the test's; None where nothing is drawn."""
    if item.get_closest_marker("drawn") is None or item.get_closest_marker("campaign"):
        return None
    return str(item.callspec.id) if hasattr(item, "callspec") else str(item.name)


def _chosen(item: pytest.Item, items: Iterable[pytest.Item]) -> set[str]:
    marker = item.get_closest_marker("drawn")
    assert marker is not None
    always = set(marker.kwargs.get("always", ()))
    file = [each for each in items if each.path == item.path and _name(each) is not None]
    other = sorted({str(_name(each)) for each in file} - always)
    draw = random.Random(f"{os.environ[SEED]} {item.path.name}")
    return always | set(draw.sample(other, min(marker.args[0], len(other))))
