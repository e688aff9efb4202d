"""docs/picture.svg: ``vlmguard selftest`` of the real framework, guard off and on.

    python -m tools.pages.picture        where ms-swift is installed

Draws the lines that the two runs printed, under a prompt, and how each run ended: one run above the
other, so that a telephone shows them large enough.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import textwrap
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "docs" / "picture.svg"
WIDTH, ROW, COLUMN, TOP, SIZE = 500, 23, 47, 64, 16
COMMAND = "NPROC_PER_NODE=2 swift sft …"
COLOURS = {"dim": "#8b949e", "red": "#ff7b72", "green": "#7ee787", "plain": "#e6edf3"}


def main() -> int:
    """Run the self-test, draw."""
    command = [sys.executable, "-m", "vlmguard", "selftest", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr)
        return 1
    told = json.loads(done.stdout)
    OUT.write_text(draw(_off(told), _on(told)), encoding="utf-8")
    return 0


def _off(told: dict) -> list[tuple[str, str]]:
    first = told["off"]["message"].partition(". ")[0] + "."
    return [("dim", f"$ VLMGUARD=off {COMMAND}"), ("plain", ""),
            *(("red", line) for line in _wrapped(f"RuntimeError: {first}")),
            ("plain", ""), ("dim", f"crashed after {told['off']['seconds']:.0f} s")]  # fmt: skip


def _on(told: dict) -> list[tuple[str, str]]:
    lines = [("dim", f"$ {COMMAND}"), ("plain", "")]
    for said in told["on"]["said"]:
        if "ledger:" in said:
            continue  # its second line is not in the picture
        colour = "green" if " fixed" in said else "plain"
        lines += [(colour, line) for line in _wrapped(said)]
    return [*lines, ("plain", ""), ("dim", f"trained, {told['on']['seconds']:.0f} s")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMN, subsequent_indent="  ")


def draw(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> str:
    """Two panes as an SVG without fonts or pictures from elsewhere."""
    middle = TOP + ROW * len(first)
    height = middle + TOP + ROW * len(second)
    panes = _pane(first, 0, "without vlmguard") + _pane(second, middle, "with vlmguard")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The same command without vlmguard crashes, with it it trains">'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>'
        f'<path d="M16 {middle}H{WIDTH - 16}" stroke="#30363d"/>'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" '
        f'font-size="{SIZE}">{panes}</g></svg>\n'
    )


def _pane(lines: list[tuple[str, str]], y: int, title: str) -> str:
    head = f'<text x="20" y="{y + 34}" fill="{COLOURS["dim"]}" font-weight="bold">{title}</text>'
    body = "".join(
        f'<text x="20" y="{y + TOP + ROW * n}" fill="{COLOURS[colour]}" xml:space="preserve">'
        f"{html.escape(line)}</text>"
        for n, (colour, line) in enumerate(lines)
    )
    return head + body


if __name__ == "__main__":
    sys.exit(main())
