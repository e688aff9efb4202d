"""What stands below an answer: the ranks side by side, earlier runs, vlmguard's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlmguard_explain.advice.values import quoted
from vlmguard_explain.cause import missing
from vlmguard_explain.cause.answer import Answer
from vlmguard_explain.match.catalogue import table
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.show import excerpt, shellwords
from vlmguard_explain.source import clean

ROW = 150  # characters of a rank's last line


def earlier_runs(digests: Sequence[Digest]) -> Iterator[str]:
    """That a file holds several runs, and which of them is explained."""
    for digest in (one for one in digests if one.before):
        name, ended = clean.shown(digest.source.name), digest.ended_before
        last = f"; the one before ended: {excerpt.of(ended, digests, ROW)}" if ended else ""
        yield f"{name}: the last of {digest.before + 1} runs, from line {digest.first} on{last}"


def ranks(answer: Answer, digests: Sequence[Digest], most: int) -> Iterator[str]:
    """What each rank waits in, how the own log of one that never came ends; or last lines."""
    rows = answer.table.rows() if answer.table is not None else []
    if answer.verdict == "unfinished":
        rows = [excerpt.of(one, digests, ROW) for one in answer.evidence]
    if (left := len(rows) - most) > 0:  # of very many the first and the last
        half = most // 2
        rows[half:-half] = [f"… and {left} more (--format json has all)"]
    yield from rows
    for rank in answer.table.gone[:4] if answer.table and missing.each_its_own(digests) else ():
        last = missing.last_line(rank, digests)
        line = f": {excerpt.of(last, digests, ROW)}" if last is not None else ""
        yield f"{missing.own_log(rank, digests)}{line}"


def guard(answer: Answer, most: int) -> Iterator[str]:
    """The findings that vlmguard had in this run."""
    for one in answer.guard[:most]:
        who = f" [rank {one.rank}]" if one.rank is not None else ""
        yield clean.shown(f"{one.code} {one.outcome}{who}: {one.why}")[: excerpt.LONGEST]


def rest(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """When the explanation is wrong, which rules see it before the start, what followed."""
    if (known := answer.known) is not None:
        rules = [f"{code}, {table('rules')[code]}" for code in known.prevented]
        yield "wrong if", [shellwords.codes(known.wrong)]
        yield "before the next start", [f"vlmguard check -- YOUR COMMAND: {one}" for one in rules]
    yield "followed by", [clean.shown(one) for one in answer.followed]


def more(answer: Answer, digests: Sequence[Digest], left: int) -> Iterator[str]:
    """Where the rest is."""
    log = quoted(digests[0].source.name) if len(digests) == 1 else ""
    steps = f" ({left} more step{'s' if left > 1 else ''})" if left > 0 else ""
    page = f"; vlmguard rule {answer.known.code}" if answer.known is not None else ""
    yield f"vlmguard explain --all {log or 'LOGS'}{steps}{page}"
