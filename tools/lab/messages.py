"""The classes of messages that a crash can carry; the first that matches names it."""

from __future__ import annotations

import re

_CLASSES = (
    ("ready_only_once", r"Expected to mark a variable ready only once"),
    ("already_reduced", r"has already been reduced"),
    ("unfinished", r"Expected to have finished reduction"),
    ("recomputed_metadata", r"Recomputed values|number of tensors was saved"),
    ("inflight", r"still have inflight params"),
    ("no_grad", r"does not require grad|loss must be a scalar tensor|none of .* requires? grad"),
    ("internal_assert", r"INTERNAL ASSERT FAILED"),
    ("not_engaged", r"^not engaged"),
    ("transport", r"gloo|Connection closed by peer|preamble|Broken pipe"),
    ("assertion", r"^AssertionError"),
    ("unsupported", r"No module named|cannot import|not support|No backend"),
)  # fmt: skip


def classify(error: str | None, message: str | None) -> str:
    """The class of an exception; "died" for a rank without a word, "other" for the rest."""
    if error is None:
        return "died"
    text = f"{error}: {message}" if error == "AssertionError" else message or error
    return next((name for name, what in _CLASSES if re.search(what, text, re.S)), "other")


def first_line(error: str | None, message: str | None, exit_code: int | None) -> str:
    """What a record shows: without addresses, paths and process numbers, 200 characters at most."""
    if exit_code is not None:
        return f"exit code {exit_code}: {_plain(message or '')}"[:200]
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    return _plain(f"{error}: {lines[0]}" if lines else f"{error}")[:200]


def _plain(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    text = re.sub(r"\[?\d+\.\d+\.\d+\.\d+\]?:\d+", "address", text)
    text = re.sub(r"/\S*/(site-packages|dist-packages)/", "", text)
    text = re.sub(r"(?<!\w)/[\w.-]+(/[\w.-]+)+/(?=[\w.-]+)", "", text)
    return re.sub(r"\b(pid|PID)[ =:]+\d+", r"\1 …", text)
