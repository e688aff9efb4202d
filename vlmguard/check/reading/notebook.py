"""A notebook's cells as a bash script: what ``!`` starts, and what Python sets for it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from typing import Any

MOST = 64 << 20
"""Bytes of a notebook, its pictures included."""
_BASH = re.compile(
    r"%%(bash|sh|sx|system|!)(\s|$)|%%script\s+(-\S+\s+)*(/\S*/)?(env\s+)?(ba)?sh(\s|$)"
)
_TIMED = re.compile(r"^(\s*)%(?:time|timeit|prun)\s+(?:-\w+\s+\d*\s*)*")
_SHELL = re.compile(r"^(?:[\w, .\[\]'\"]+=\s*)?(?:!!?(?!=)|%sx\s|%system\s)")
"""What hands the rest of a line to a shell, its output kept or not."""
_RUN = re.compile(r"^%run\s+(?:-(?!m\b)[a-zA-Z]\w*\s+)*")
_NAME = re.compile(r"\{[^{}\s]*\}")
_SET = re.compile(r"""os\.environ\[["'](\w+)["']\]\s*=\s*(["'][^"']*["'])\s*$""")


def script(path: str) -> str:
    """The commands of a notebook, cell by cell; Python cells stand there as here-documents.

    Raises:
        OSError: it cannot be read, or is no notebook.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST:
        raise OSError(f"{path} is no notebook that can be read (a device, a pipe, over 64 MB)")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            cells = json.load(file)["cells"]
        return "\n".join(line for cell in cells for line in _cell(cell)) + "\n"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OSError(f"{path} is no notebook: {type(error).__name__}") from None


def _cell(cell: Any) -> Iterator[str]:
    if cell.get("cell_type") != "code":
        return
    source = cell["source"]
    text = (source if isinstance(source, str) else "".join(source)).replace("\r\n", "\n")
    head, _, rest = text.lstrip().partition("\n")
    if _BASH.match(head):
        yield f"(\n{rest}\n)"
    elif re.match(r"%%python3?\b", head):
        yield _python(rest)
    elif re.match(r"%%(time|timeit|capture|prun|memit)\b", head):  # the rest of the cell runs
        yield from _cell({**cell, "source": rest})
    elif head.startswith("%%"):
        yield f"# {head}"
    else:
        yield from _lines(text)


def _lines(text: str) -> Iterator[str]:
    python: list[str] = []
    for line in re.sub(r"\\\n", "\\\\\0", text).split("\n"):
        line = _TIMED.sub(r"\1", line.replace("\0", "\n"))
        bare = _SHELL.sub("!", line.strip())
        told = re.match(r"[!%](?!=)(.*)", bare, re.S)
        variable = _SET.match(bare)
        if variable:
            yield f"export {variable[1]}={variable[2]}"
        elif not told:
            python.append(line)
        elif bare.startswith("%run "):
            yield f"( python {_named(_RUN.sub('', bare))}\n)"
        elif bare.startswith("%cd "):
            yield f"cd {told[1][3:].strip()}"
        elif found := re.match(r"%(?:set_)?env\s+(\w+)[= ](.*)", bare):
            yield f"export {found[1]}={_named(found[2])}"
        elif bare.startswith(("!", "%pip", "%conda")):
            yield f"( {_named(told[1].lstrip('!'))}\n)"
    code = "\n".join(python).strip()
    if code:
        yield _python(code)


def _python(code: str) -> str:
    return f"python - <<'THE CELL ENDS HERE'\n{code}\nTHE CELL ENDS HERE"


def _named(text: str) -> str:
    """``{name}`` is Python's: not known here."""
    return _NAME.sub(lambda found: f"$(notebook '{found[0]}')", text)
