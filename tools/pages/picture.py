"""docs/picture.svg: ``vlmguard selftest`` of the real framework, guard off and on, side by side.

    python -m tools.pages.picture        where ms-swift is installed

Draws the lines that the two runs printed, under a prompt, and how each run ended.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import textwrap
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "docs" / "picture.svg"
WIDTH, ROW, COLUMN, TOP = 1080, 19, 62, 64
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
        colour = "green" if " fixed" in said else "plain"
        lines += [(colour, line) for line in _wrapped(said)]
    return [*lines, ("plain", ""), ("dim", f"trained, {told['on']['seconds']:.0f} s")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMN, subsequent_indent="  ")


def draw(left: list[tuple[str, str]], right: list[tuple[str, str]]) -> str:
    """Two panes as an SVG without fonts or pictures from elsewhere."""
    height = TOP + ROW * max(len(left), len(right)) + 24
    half = WIDTH // 2
    panes = "".join(_pane(lines, x, title) for lines, x, title in
                    ((left, 20, "without vlmguard"),
                     (right, half + 20, "with vlmguard")))  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The same command without vlmguard crashes, with it it trains">'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>'
        f'<path d="M{half} 16V{height - 16}" stroke="#30363d"/>'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13">'
        f"{panes}</g></svg>\n"
    )


def _pane(lines: list[tuple[str, str]], x: int, title: str) -> str:
    head = f'<text x="{x}" y="34" fill="{COLOURS["dim"]}" font-weight="bold">{title}</text>'
    body = "".join(
        f'<text x="{x}" y="{TOP + ROW * n}" fill="{COLOURS[colour]}" xml:space="preserve">'
        f"{html.escape(line)}</text>"
        for n, (colour, line) in enumerate(lines)
    )
    return head + body


if __name__ == "__main__":
    sys.exit(main())
