"""An answer as text: what failed, why, what to type, what shows it. All of a log is cleaned."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from vlmguard_explain.cause.answer import Answer
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.show import details, excerpt, headline, next_steps, unfinished, unknown

WIDTH = 200  # characters of a line
STEPS, ROWS = 3, 4  # that are shown at first: steps; ranks and findings
MOST = 64  # with --all
TRY = "try, in this order"


def text(answer: Answer, digests: Sequence[Digest], whole: bool = False) -> str:
    """What a person reads at first; ``whole``: each step, and all that the log has on it."""
    lines = headline.first(answer, WIDTH)
    for title, found in _parts(answer, digests, whole):
        part = list(filter(None, found))
        if title == TRY and part:
            lines += [f"{title}:", *part]  # a command is not broken
        elif part:
            alone = len(part) == 1
            lines += _folded([f"{title}: {part[0]}"] if alone else [f"{title}:", *part])
    return "\n".join(lines) + "\n"


def _folded(lines: Sequence[str]) -> Iterator[str]:
    """The title, and what is below it."""
    for number, line in enumerate(lines):
        indent = "  " if number else ""
        yield from textwrap.wrap(line, WIDTH, initial_indent=indent, subsequent_indent="    ",
                                 break_on_hyphens=False)  # fmt: skip


def _parts(
    answer: Answer, digests: Sequence[Digest], whole: bool
) -> Iterator[tuple[str, Iterable[str]]]:
    """Titles, and the lines under each; a title without lines is not printed."""
    rows = MOST if whole else ROWS
    if whole or answer.verdict == "finished":
        yield "run", [headline.run(answer)]
    yield "note", details.earlier_runs(digests)
    if answer.verdict != "finished":
        title, cause, values = _cause(answer, digests)
        yield title, [cause]
        steps = next_steps.of(answer, values)
        yield TRY, next_steps.lines(steps if whole else steps[:STEPS], WIDTH)
        if whole:
            yield from details.rest(answer)
            yield "rank", [headline.how(answer)]
        yield "ranks", details.ranks(answer, digests, rows)
        if whole or answer.verdict != "unfinished":
            yield "log", (excerpt.every if whole else excerpt.short)(answer, digests)
    yield "vlmguard in this run", details.guard(answer, rows)
    if not whole and answer.verdict != "finished":
        yield "more", details.more(answer, digests, len(steps) - STEPS)
    if whole and (found := headline.finding(answer)):
        yield "page", [f"vlmguard rule {found.code} ({found.url})"]


def _cause(answer: Answer, digests: Sequence[Digest]) -> tuple[str, str, dict[str, str]]:
    """What it is called, the cause, and the values for steps of a table."""
    if answer.verdict == "unfinished":
        return "state", unfinished.cause(answer, digests), unfinished.values(answer, digests)
    if found := headline.finding(answer):
        return "cause", found.why, {}
    return "cause", unknown.cause(answer), unknown.values(answer)
