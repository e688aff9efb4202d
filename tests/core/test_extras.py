"""Every extra of pyproject.toml was installed from a wheel and tried: the record says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.extras import campaign
from tools.extras.cases import CASES
from tools.pages import extras_page
from vlmguard.core.settings import read_toml

PROJECT = read_toml(Path(__file__).parents[2] / "pyproject.toml")["project"]
EXTRAS = ["", *PROJECT["optional-dependencies"]]


def test_every_extra_has_a_case_and_no_case_is_of_another():
    assert sorted(CASES) == sorted(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_was_installed_and_tried(extra):
    record = campaign.load().get(extra)
    assert record, f"make extras ONLY={extra or 'none'}"
    failed = {name: step for name, step in record["steps"].items() if not step["good"]}
    assert not failed
    assert {"install", "pip check", ".pth", "check", "explain", "doctor"} <= record["steps"].keys()


def test_the_page_is_what_the_records_say():
    assert extras_page.PAGE.read_text("utf-8") == extras_page.text(), "run python -m tools.pages"
