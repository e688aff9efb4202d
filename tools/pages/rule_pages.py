"""One page per rule, made of its docstring: docs/rules/."""

from __future__ import annotations

import re
from pathlib import Path

from vlmguard import rules

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"
RULES = sorted(rules.RULES, key=lambda rule: rule.CODE)
CODES = {rule.CODE for rule in RULES}


_RELATED = {
    "VG101": "VG103 VG107 VG501",
    "VG102": "VG103 VG104 VG502",
    "VG103": "VG101 VG102 VG502",
    "VG104": "VG302 VG507",
    "VG105": "VG401 VG405 VG504",
    "VG106": "VG108 VG204 VG503 VG505",
    "VG107": "VG101 VG106",
    "VG108": "VG106 VG204",
    "VG109": "VG101",
    "VG113": "VG106 VG114",
    "VG201": "VG202 VG203 VG506",
    "VG202": "VG201 VG506",
    "VG203": "VG201",
    "VG204": "VG106 VG108",
    "VG205": "VG303 VG304 VG508",
    "VG301": "VG302",
    "VG305": "VG573",
    "VG302": "VG104 VG301",
    "VG401": "VG405 VG408",
    "VG405": "VG105 VG401",
    "VG408": "VG401",
    "VG409": "VG570",
    "VG610": "VG201 VG202",
    "VG611": "VG203",
    "VG620": "VG610",
    "VG621": "VG622",
    "VG622": "VG115 VG621",
    "VG630": "VG302 VG650",
    "VG640": "VG103 VG108 VG641 VG642",
    "VG641": "VG640",
    "VG642": "VG640",
    "VG650": "VG630 VG651",
    "VG651": "VG650",
    "VG652": "VG301",
    "VG660": "VG107 VG640",
}
_FIX = {
    "fix": "vlmguard fixes this by itself if it can, and judges the run again after the change. If "
    "it cannot, a finding of level error stops the run.",
    "error": "vlmguard does not fix this. A finding of level error stops the run; a warning or a "
    "note is printed, and the run goes on.",
    "warn": "vlmguard does not fix this. It prints the finding, and the run goes on.",
}
_EXPLAINS = "Explains a failure that has happened. The exception itself stays as it is."
_CODE = ("Example", "Use instead")


def page(rule: object) -> str:
    """Markdown of one rule."""
    title, _, body = (rule.__doc__ or "").strip().partition("\n")
    explains = rule.NAME.startswith("explain-")
    mended = _EXPLAINS if explains else _FIX[rule.DEFAULT]
    lines = [f"# {rule.CODE} {rule.NAME}", "", _escaped(title), ""]
    lines += [f"Default policy: `{rule.DEFAULT}`. {mended}", ""]
    for name, text in _sections(body):
        shown = _prose if explains or name not in _CODE else _code
        lines += [f"## {name}", "", *shown(text), ""]
    related = [code for code in _RELATED.get(rule.CODE, "").split() if code in CODES]
    if related:
        lines += ["## Related", "", ", ".join(f"[{c}]({c}.md)" for c in related), ""]
    return "\n".join(lines).rstrip() + "\n"


def _escaped(text: str) -> str:
    """`<image>` outside of code would be taken for HTML, `[|](?:` of a pattern for a link."""
    marks = {"<": "&lt;", "](?": "]\\(?"}
    return re.sub(r"`[^`]*`|<|\]\(\?", lambda found: marks.get(found[0], found[0]), text)


def _prose(lines: list[str]) -> list[str]:
    """A list stands behind a line without text."""
    made: list[str] = []
    for line in _escaped("\n".join(lines)).splitlines():
        entry = line.startswith("- ") and made and not made[-1].startswith(("- ", " "))
        made += ["", line] if entry else [line]
    return made


def _sections(body: str) -> list[tuple[str, list[str]]]:
    """Title and lines of each section."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            found.append((line, []))
        elif line.strip():
            found[-1][1].append(line.removeprefix("    ").rstrip())
    return found


def _code(lines: list[str]) -> list[str]:
    """A command or a setting as a code block; prose stays prose."""
    first = lines[0].split()[0] if lines else ""
    if first.startswith(
        ("--", "use_reentrant=False.", "swift", "torchrun", "pip", "vlmguard", "deepspeed")
    ):
        cut = next((n for n, line in enumerate(lines) if ". " in f"{line} " and n == 0), None)
        if cut is None:
            return ["```text", *lines, "```"]
        command, _, rest = lines[0].partition(". ")
        prose = [part for part in (rest, *lines[1:]) if part]
        return ["```text", command.rstrip("."), "```", *(["", *_prose(prose)] if prose else [])]
    return _prose(lines)


def pages() -> dict[str, str]:
    """File name → text, with an index."""
    made = {f"{rule.CODE}.md": page(rule) for rule in RULES}
    rows = [
        f"| [{rule.CODE}]({rule.CODE}.md) | {rule.NAME} | `{rule.DEFAULT}` | "
        f"{_escaped(rule.__doc__.strip().splitlines()[0])} |"
        for rule in RULES
    ]
    head = ["# Rules", "", "| code | name | default | what |", "| --- | --- | --- | --- |"]
    return {**made, "index.md": "\n".join([*head, *rows]) + "\n"}
