"""A traceback's line that names a frame, as Python, rich, a notebook or a quotation print it."""

from __future__ import annotations

import re

Frame = tuple[str, int, str]
"""Path, line, function."""

PYTHON = re.compile(r'^\s*(?:│\s*)?File "([^"\n]{1,400})", line (\d{1,7})(?:, in (.{1,200}))?')
# As chats and trackers quote one: without File, with other quotation marks.
_QUOTED_FRAME = re.compile(
    r"^\s{0,8}(?:File )?[\"“”']?([^\"“”'\s,]{1,400}\.py)[\"“”']?, line (\d{1,7}), "
    r"in ([\w<>.]{1,200})\s{0,8}$"
)
_RICH = re.compile(r"^│ ?((?:[A-Za-z]:\\)?/?[^\s:│][^:│\n]{1,300}):(\d{1,7}) in ([\w<>.]{1,80})")
_HALF = re.compile(r"^│ ([/~.\w][^\s│]{2,300}(?: in)?)\s{0,300}│?$")  # of one that is wrapped
# A notebook's frames: "File ~/x/trainer.py:19, in Trainer.train(self, …)", before IPython 8
# "~/x/trainer.py in train(self, …)", in Colab "[/x/trainer.py](https://…) in train(self, …)".
_CELL = re.compile(
    r"^File \[?([~./A-Za-z](?::\\)?[^\s:]{0,300}\.py):(\d{1,7})(?:\]\([^)\s]{0,300}\))?,"
    r" in ([\w<>.]{1,80})\("
)
_OLD_CELL = re.compile(
    r"^\[?([~/A-Za-z][^\s:\]]{0,300}\.py)(?:\]\([^)\s]{0,200}\))? in (())?([\w<>]{1,80})\("
)

_PATH = re.compile(r"File \"([^\"\n]{1,200})\", line \d{1,7}")


def paths(trace: str) -> list[str]:
    """The files of a traceback's text, outermost first."""
    return _PATH.findall(trace)


_INSTALLED = re.compile(r"-packages[/\\]|^<|/lib(?:64)?/python\d|^/opt/pytorch")
_CHECKOUTS = (
    "/src/llamafactory/",
    "/src/llmtuner/",
    "/swift/llm/",
    "/swift/cli/",
    "/swift/trainers/",
    "/trl/trainer/",
    "/axolotl/",
)


def foreign(path: str) -> bool:
    """Whether a file is an installed package's or Python's own, or code made of a string."""
    return bool(_INSTALLED.search(path))


def users(path: str) -> bool:
    """Whether a file is the user's own: neither `foreign` nor in a framework's checkout."""
    return not foreign(path) and not any(part in path for part in _CHECKOUTS)


def of(text: str) -> Frame | None:
    """The frame that a line names."""
    if (
        match := PYTHON.match(text)
        or _RICH.match(text)
        or _CELL.match(text)
        or _QUOTED_FRAME.match(text)
    ):
        return match[1], int(match[2]), (match[3] or "").strip().rpartition(".")[2]
    if match := _OLD_CELL.match(text):
        return match[1], 0, match[4]
    return None


def is_frame(text: str) -> bool:
    """Whether a traceback's line names a frame, as Python, rich or a notebook print it."""
    return of(text) is not None


def whole(half: str, text: str) -> tuple[str, str]:
    """``text``, or the frame of which rich wrote the first ``half`` on the line before; and the
    half of one that this line begins."""
    if not text.startswith("│ "):
        return text, ""
    rest = text.strip(" │")
    told = (f"│ {half}{gap}{rest}" for gap in ("", " ")) if half else ()
    found = next((one for one in told if _RICH.match(one)), "")
    match = None if found else _HALF.match(text)
    begun = match[1] if match and ("/" in match[1] or "\\" in match[1]) else ""
    return found or text, begun
