"""``python -m tools.pages`` writes every page of docs/ that is made: rules, facts, measurements.

``python -m tools.pages --check`` fails where a page is not what its rule or data say.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.pages import (
    check_page,
    extras_page,
    facts_page,
    ledger_page,
    matrix_page,
    measured,
    ordinary_page,
    proof,
    rehearsals_page,
    repositories_page,
    rule_pages,
    suites_page,
    zoo_page,
)


def every() -> dict[Path, str]:
    """File → text, of all pages that are made."""
    rules = {rule_pages.FOLDER / name: text for name, text in rule_pages.pages().items()}
    told = {rule_pages.FOLDER.parent / name: text for name, text in measured.pages().items()}
    seen = {rehearsals_page.PAGE: rehearsals_page.text(), facts_page.PAGE: facts_page.text()}
    seen[check_page.PAGE] = check_page.text()
    seen[extras_page.PAGE] = extras_page.text()
    seen[suites_page.PAGE] = suites_page.text()
    seen[ordinary_page.PAGE] = ordinary_page.text()
    seen[proof.PAGE] = proof.page()
    seen[ledger_page.PAGE] = ledger_page.text()
    seen[zoo_page.PAGE] = zoo_page.text()
    seen[repositories_page.PAGE] = repositories_page.text()
    return {**rules, **told, **seen, matrix_page.PAGE: matrix_page.text(matrix_page.load())}


def main(check: bool) -> int:
    rule_pages.FOLDER.mkdir(exist_ok=True)
    made = every()
    stale = [file for file, text in made.items() if not file.exists() or file.read_text() != text]
    if check:
        print("\n".join(f"{file.name} is stale: run python -m tools.pages" for file in stale))
        return bool(stale)
    for file, text in made.items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
