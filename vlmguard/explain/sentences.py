"""Sentences of packages' own checks, by class: what a quotation without its frames still holds.

`sentences/VG553.txt` and its like hold one literal part of a message a line, as the sources print
it; the class is that of the raising place. `tests/explain/make_sentences.py` makes a draft of
them; what another package may say of something else was taken out by eye.
A file that bears a package's name holds that package's, the class before each.
Asked only where neither a sign of the catalogue nor a place tells. They are no strings that the
reader looks for: an exception's own form brings its line.
"""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def _all() -> tuple[tuple[str, str], ...]:
    """(sentence, class), the longest first."""
    folder = resources.files(__package__) / "sentences"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".txt"):
            own = file.name.removesuffix(".txt")
            for line in filter(None, file.read_text(encoding="utf-8").splitlines()):
                code, _, rest = line.partition(" ")
                found.append((line, own) if own.startswith("VG") else (rest, code))
    return tuple(sorted(found, key=lambda f: (-len(f[0]), f)))


def told(message: str) -> str | None:
    """The class of the longest sentence in ``message``, `failure.flat`."""
    return next((code for text, code in _all() if text in message), None)
