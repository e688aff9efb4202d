"""One folder of runs for all processes of a test session, so that they share references."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.kit import runs


def pytest_configure(config: pytest.Config) -> None:
    """Name the folder in the environment before pytest-xdist starts its workers.

    Captured weights are large: what was made here is not kept. Set VLMGUARD_TEST_SESSION to a
    folder to keep the runs, and to find them made the next time.
    """
    if "VLMGUARD_TEST_SESSION" not in os.environ:
        config.add_cleanup(lambda: shutil.rmtree(runs.session(), ignore_errors=True))
        runs.session()
