"""One page per rule, generated from its docstring: ``python docs/pages.py`` writes docs/rules/.

``python docs/pages.py --check`` fails where a page is not what its rule says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vlmguard.rules import RULES as OURS
from vlmguard_colossalai.rules import RULES as GEMINI

FOLDER = Path(__file__).parent / "rules"
RULES = sorted((*OURS, *GEMINI), key=lambda rule: rule.CODE)


def page(rule: object) -> str:
    """Markdown of one rule."""
    title, _, body = (rule.__doc__ or "").strip().partition("\n")
    lines = [f"# {rule.CODE} {rule.NAME}", "", title, "", f"Default policy: `{rule.DEFAULT}`."]
    for line in body.splitlines():
        if line and not line.startswith(" "):
            lines += ["", f"## {line}", ""]
        elif line.strip():
            lines.append(line.strip())
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """File name → text, with an index."""
    made = {f"{rule.CODE}.md": page(rule) for rule in RULES}
    rows = [
        f"| [{rule.CODE}]({rule.CODE}.md) | {rule.NAME} | `{rule.DEFAULT}` | "
        f"{rule.__doc__.strip().splitlines()[0]} |"
        for rule in RULES
    ]
    head = ["# Rules", "", "| code | name | default | what |", "| --- | --- | --- | --- |"]
    return {**made, "index.md": "\n".join([*head, *rows]) + "\n"}


def main(check: bool) -> int:
    FOLDER.mkdir(exist_ok=True)
    stale = [
        name
        for name, text in pages().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text("utf-8") != text
    ]
    if check:
        print("\n".join(f"{name} is stale: run python docs/pages.py" for name in stale))
        return bool(stale)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
