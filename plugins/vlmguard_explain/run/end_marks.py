"""Words with which a run says that the training is over, its framework's or its script's own."""

from __future__ import annotations

from vlmguard_explain.lazy import patterns, words

_P = patterns("run.end_marks")
_T = words("run.end_marks")


def marked(text: str) -> bool:
    """Whether it is a line that a framework prints at the end only."""
    return any(mark in text for mark in _T.marks)


def last_word(text: str) -> bool:
    """Whether a line is nothing but "done", which says so as a log's last only."""
    return _P.last.match(text) is not None


def says_done(text: str) -> bool:
    """Whether a line says that the training is over."""
    if "Error" in text or "print(" in text:  # a source line says what it would write
        return False
    if marked(text):
        return True
    worded = any(part in text for part in _T.hints)
    match = _P.words.search(text, 0, 600) if worded else None
    if match is None:
        return False
    before = _P.part.search(text, max(match.start() - 30, 0), match.start())
    return before is None and _P.of_part.match(text, match.end()) is None
