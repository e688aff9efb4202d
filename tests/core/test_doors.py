"""What third parties import stays where it is."""

from __future__ import annotations

import importlib

import pytest

from tests.kit import envs
from tools.pages import facts_page
from vlmguard.core.settings import read_toml

ENTRY_POINTS = {
    *("rules", "swift", "trl", "llamafactory", "accelerate", "flagembedding", "colossalai"),
}


@pytest.mark.parametrize("module", facts_page.DOORS)
def test_a_door_is_where_it_was(module):
    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in facts_page.DOORS[module].split())


def test_the_entry_points_keep_their_names():
    told = read_toml(envs.ROOT / "pyproject.toml")["project"]["entry-points"]["vlmguard"]
    assert set(told) >= ENTRY_POINTS
