"""An answer as text: what failed, why, what to type, what shows it. All of a log is cleaned."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from vlmguard_explain.advice.values import quoted
from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.match.catalogue import table
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.show import excerpt, headline, next_steps, unexplained
from vlmguard_explain.source import clean

WIDTH = 200  # characters of a line
STEPS, ROWS = 3, 4  # shown without --all: steps; ranks and findings
MOST = 64  # with --all
ROW = 150  # characters of a rank's last line
TRY = "try, in this order"


def text(answer: Answer, digests: Sequence[Digest], whole: bool = False) -> str:
    """What a person reads at first; ``whole``: each step, and all that the log has on it."""
    lines = headline.first(answer, WIDTH)
    for title, found in _parts(answer, digests, whole):
        part = list(filter(None, found))
        if title == TRY and part:
            lines += [f"{title}:", *part]  # commands are not wrapped
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
    yield "note", earlier_runs(digests)
    if answer.verdict != "finished":
        title, cause, values = _cause(answer, digests)
        yield title, [cause]
        steps = next_steps.of(answer, values)
        yield TRY, next_steps.lines(steps if whole else steps[:STEPS], WIDTH)
        if whole:
            yield from rest(answer)
            yield "rank", [headline.how(answer)]
        yield "ranks", ranks(answer, digests, rows)
        if whole or answer.verdict != "unfinished":
            yield "log", (excerpt.every if whole else excerpt.short)(answer, digests)
    yield "vlmguard in this run", guard(answer, rows)
    if not whole and answer.verdict != "finished":
        yield "more", more(answer, digests, len(steps) - STEPS)
    if whole and (found := headline.finding(answer)):
        yield "page", [f"vlmguard rule {found.code} ({found.url})"]


def _cause(answer: Answer, digests: Sequence[Digest]) -> tuple[str, str, dict[str, str]]:
    """What it is called, the cause, and the values for steps of a table."""
    if answer.verdict == "unfinished":
        return "state", unexplained.cause(answer, digests), unexplained.values(answer, digests)
    if found := headline.finding(answer):
        return "cause", found.why, {}
    return "cause", unexplained.unknown_cause(answer), unexplained.unknown_values(answer)


def earlier_runs(digests: Sequence[Digest]) -> Iterator[str]:
    """That a file holds several runs, and which of them is explained."""
    for digest in (one for one in digests if one.before):
        name, ended = clean.shown(digest.source.name), digest.ended_before
        last = f"; the one before ended: {excerpt.of(ended, digests, ROW)}" if ended else ""
        yield f"{name}: the last of {digest.before + 1} runs, from line {digest.first} on{last}"


def ranks(answer: Answer, digests: Sequence[Digest], most: int) -> Iterator[str]:
    """What each rank waits in, or their last lines."""
    rows = answer.table.rows() if answer.table is not None else []
    if answer.verdict == "unfinished":
        rows = [excerpt.of(one, digests, ROW) for one in answer.evidence]
    if (left := len(rows) - most) > 0:  # show the first and the last
        half = most // 2
        rows[half:-half] = [f"… and {left} more (--format json has all)"]
    yield from rows


def guard(answer: Answer, most: int) -> Iterator[str]:
    """The findings that vlmguard had in this run."""
    for one in answer.guard[:most]:
        who = f" [rank {one['rank']}]" if one["rank"] is not None else ""
        yield clean.shown(f"{one['code']} {one['outcome']}{who}: {one['why']}")[: excerpt.LONGEST]


def rest(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """When the explanation is wrong, which rules see it before the start, what followed."""
    if (known := answer.known) is not None:
        rules = [f"{code}, {table('rules')[code]}" for code in known.prevented]
        yield "wrong if", [next_steps.codes(known.wrong)]
        yield "before the next start", [f"vlmguard check -- YOUR COMMAND: {one}" for one in rules]
    yield "followed by", [clean.shown(one) for one in answer.followed]


def more(answer: Answer, digests: Sequence[Digest], left: int) -> Iterator[str]:
    """Where the rest is."""
    log = quoted(digests[0].source.name) if len(digests) == 1 else ""
    steps = f" ({left} more step{'s' if left > 1 else ''})" if left > 0 else ""
    page = f"; vlmguard rule {answer.known.code}" if answer.known is not None else ""
    yield f"vlmguard explain --all {log or 'LOGS'}{steps}{page}"
