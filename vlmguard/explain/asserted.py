"""An assertion of the user's own: what it asks for, and which of the data's rows fail it."""

from __future__ import annotations

import re

from vlmguard.explain import given

_ASSERT = re.compile(r"\bassert ([^\n]{3,300})$")
_NAME = re.compile(r"(?<![\w.'\"])([A-Za-z_]\w{0,30})(?=[.\[ )<>=]|$)")
_WORDS = frozenset("not and or in is all any len isinstance abs min max None True False".split())
_FIELD = re.compile(
    r"\b(?:batch|data|inputs|sample|row|item|example|targets?)\[['\"](\w{1,40})['\"]\]"
)
_VALUES = re.compile(r"-?\d")
_BOX = re.compile(r"(?i)\b(?:gt_?)?(?:b?box(?:es)?)\b")
_CORNERS = re.compile(
    r"\[{1,2}(-?[\d.]{1,20}), (-?[\d.]{1,20}), (-?[\d.]{1,20}), (-?[\d.]{1,20})\]"
)


def condition(trace: str) -> str:
    """What the innermost line of the user's own code asserts, without its words."""
    match = _ASSERT.search(given.own_line(trace).strip())
    return _until_comma(match[1]).strip() if match else ""


def _until_comma(text: str) -> str:
    """Up to the comma that no bracket or quotation holds."""
    depth, quoted = 0, ""
    for at, sign in enumerate(text):
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "'\"":
            quoted = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            return text[:at]
    return text


def rows(said: str, trace: str) -> str:
    """A look for the rows of which that assertion, which printed a row's values, is not so."""
    asked, told = condition(trace), said.partition("AssertionError:")[2]
    names = set(_NAME.findall(asked)) - _WORDS
    fields = _FIELD.findall(trace)
    if "AssertionError" not in said or len(names) != 1 or not fields or not _VALUES.search(told):
        return ""
    field, script = fields[-1], given.script(trace)
    value = f'torch.as_tensor(row["{field}"])'
    failed = re.sub(rf"(?<![\w.'\"]){names.pop()}\b", "v", asked)
    where = f", on a line of {script} behind train_dataset" if script else ""
    return (
        f"print([n for n, row in enumerate(train_dataset) for v in [{value}] if not ({failed})])"
        f'{where}: the rows whose "{field}" are not as the assertion asks: a few: mend or drop '
        f"these alone; all: {field} are written in another form{_boxes(told, field)}"
    )


def _boxes(told: str, field: str) -> str:
    """Corners whose second is before the first, and that fit a picture as width and height."""
    match = _CORNERS.search(told) if _BOX.search(f"{told} {field}") else None
    if match is None:
        return ""
    x, y, wide, high = (float(n) for n in match.groups())
    if min(x, y, wide, high) < 0 or (wide >= x and high >= y):
        return ""
    return " (x, y, width, height, by its numbers: b[2:] += b[:2] where such a row is read)"
