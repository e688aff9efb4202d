from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_rule_pages_are_what_the_rules_say():
    spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    for name, text in pages.pages().items():
        assert (DOCS / "rules" / name).read_text("utf-8") == text, "run python docs/pages.py"
