"""Every test starts with settings, environment and counters of its own."""

from __future__ import annotations

import os

import pytest

from vlmguard.core import runstate, settings
from vlmguard.runtime import faults, report


@pytest.fixture(scope="session")
def _folders(tmp_path_factory):
    """Gives an empty folder: the same one again, unless a test left something there."""
    last = []

    def empty():
        if not last or any(os.scandir(last[0])):
            last[:] = [tmp_path_factory.mktemp("cwd")]
        return last[0]

    return empty


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, _folders, request):
    if "frameworks" in request.keywords:
        yield
        return

    for name in [name for name in os.environ if name.startswith("VLMGUARD")]:
        monkeypatch.delenv(name)
    for name in ("RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(_folders())
    settings._load.cache_clear()
    faults._said.clear()
    report._once.cache_clear()
    yield
    for state in runstate.opens():
        runstate.closed(state)
    os.environ.pop(settings.RESOLVED, None)
