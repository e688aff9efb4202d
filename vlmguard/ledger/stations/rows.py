"""The station "rows": what stands in the batches, before the model sees them.

A row that cannot be meant is a warning: no target, targets on placeholders or pads, a text that
begins twice, targets that are not the row's own tokens. What may be meant is only a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.stations import pixels, repeated_rows, targets

COLUMNS = ("length", "targets", "media", "on_media", "on_pads", "bos_twice", "own", "shifted",
           "eos", "eos_targets", "restarts", "begins")  # fmt: skip
"""Numbers of one row: its tokens without pads, targets, placeholders; targets on placeholders, on
pads; how often its text begins twice in a row; targets that are the token at their place, that are
the one after it; ends of text, those that are targets; places where positions begin anew;
begin-of-sequence tokens."""
PAD, TEXT, TARGET = 0, 1, 2
"""Marks of the tokens of a row that is kept."""
MOST = 0.5
"""A kind of fault counts where this share of a row's targets, or of the rows, has it."""
EMPTY = ((0.5, 2), (0.25, 4))
"""Rows without a target are a fault from this share of all rows on, if they are so many. Where one
row in twenty has none, two of eight come by chance in 6 % of runs."""


@dataclass(frozen=True)
class Row:
    """One row of a micro-batch; further fields as in `COLUMNS`."""

    rank: int
    micro: int
    row: int
    length: int
    targets: int
    media: int
    on_media: int
    on_pads: int
    bos_twice: int
    own: int
    shifted: int
    eos: int
    eos_targets: int
    restarts: int
    begins: int

    @property
    def whole(self) -> bool:
        """Whether all its text is a target. Who masks nothing but pads, as TRL's collator for
        images does, has placeholders among the targets too."""
        return self.targets - self.on_media >= self.length - self.media - 1 > 0

    @property
    def named(self) -> str:
        return f"row {self.row} of micro-batch {self.micro} on rank {self.rank}"


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """See `vlmguard.ledger.judged_window.Judge`."""
    read = [page for page in pages if page is not None and "rows" in page]
    rows = [row for page in read for row in _rows(page)]
    step = read[0]["step"]
    labels = all(page["rows"]["labels"] for page in read)
    entries = [*_entries(rows, read, labels, memory, step)]
    entries += pixels.judge(read, rows, memory, step)
    entries += repeated_rows.judge(pages, account, memory, step)
    shown: dict[str, Any] = {"count": sum(sum(page["rows"]["sizes"]) for page in read)}
    if labels:
        shown["targets"] = sum(row.targets for row in rows)
    shown |= {"rows": [*_kept(read, account, entries)], "digest": repeated_rows.digest(read)}
    warned = any(entry.level == "warning" for entry in entries)
    return Verdict("rows", "differs" if warned else "balances", tuple(entries), shown=shown)


def _rows(page: Page) -> Iterator[Row]:
    read = page["rows"]
    places = ((micro, row) for micro, size in enumerate(read["sizes"]) for row in range(size))
    for (micro, row), counts in zip(places, read["counts"], strict=False):
        yield Row(page["rank"], micro, row, **dict(zip(COLUMNS, map(int, counts), strict=True)))


def _entries(
    rows: Sequence[Row],
    pages: Sequence[Page],
    labels: bool,
    memory: dict[str, Any],
    step: int,
) -> Iterator[Entry]:
    yield from _begins_twice(rows, step)
    if not labels:
        return
    yield from _no_target(rows, memory, step)
    on_media = [row for row in rows if row.on_media]
    if on_media:
        number = sum(row.on_media for row in on_media)
        why = f"{number} targets are placeholders of images, videos or sounds"
        chosen = any(not row.whole for row in on_media)
        yield _entry("warning" if chosen else "note", why, on_media, step, _MASK)
    on_pads = [row for row in rows if row.on_pads]
    if on_pads:
        why = f"{sum(row.on_pads for row in on_pads)} targets are pads"
        yield _entry("warning", why, on_pads, step, _MASK)
    yield from _not_own(rows, pages, step)
    yield from _notes(rows, pages, step)


_MASK = "set labels to -100 on placeholders and pads"


def _entry(
    level: Literal["warning", "note"], why: str, rows: Sequence[Row], step: int, advice: str = ""
) -> Entry:
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return Entry("VG610", level, why, f"{rows[0].named}{more}", step, advice=advice)


def _begins_twice(rows: Sequence[Row], step: int) -> Iterator[Entry]:
    found = [row for row in rows if row.bos_twice]
    if found:
        level: Literal["warning", "note"] = "warning" if len(found) > MOST * len(rows) else "note"
        why = "the text begins twice: two begin-of-sequence tokens in a row"
        advice = "tokenize with add_special_tokens=False"
        yield _entry(level, why, found, step, advice)


def _no_target(rows: Sequence[Row], memory: dict[str, Any], step: int) -> Iterator[Entry]:
    """A few are a note; many of all rows that were read are a fault."""
    found = [row for row in rows if not row.targets]
    memory["read"] = memory.get("read", 0) + len(rows)
    memory["empty"] = memory.get("empty", 0) + len(found)
    if not found:
        return
    empty, read = memory["empty"], memory["read"]
    most = any(empty >= few and empty >= share * read for share, few in EMPTY)
    why = f"{memory['empty']} of {memory['read']} rows have no target: nothing is learned from them"
    advice = "raise max_length, if truncation cut the answers; or mend labels or assistant mask"
    yield _entry("warning" if most else "note", why, found, step, advice)


def _not_own(rows: Sequence[Row], pages: Sequence[Page], step: int) -> Iterator[Entry]:
    """Labels that are not the row's tokens. Right if the model does not shift them: then the
    gradient in front of the head says that next tokens are learned."""
    found = [row for row in rows if row.targets and row.own < MOST * row.targets]
    if not found or targets.are_next(pages):
        return
    wrong = targets.are_wrong(pages)
    shifted = all(row.shifted > MOST * row.targets for row in found)
    if shifted:
        why = "labels are the next tokens already: right only if the model does not shift them"
        advice = "do not shift labels in the collator"
    else:
        why = "most targets are not the row's own tokens at their places"
        advice = "pad and cut labels as input_ids in the collator"
    yield _entry("warning" if wrong else "note", why, found, step, advice)


def _notes(rows: Sequence[Row], pages: Sequence[Page], step: int) -> Iterator[Entry]:
    every = [row for row in rows if row.whole]
    if len(every) == len(rows):
        yield _entry("note", "every token is a target, the prompts' too", every, step)
    ends = [row for row in rows if row.eos and row.targets]
    if ends and not any(row.eos_targets for row in rows):
        why = "the end-of-text token is in the rows and never a target: generation may not end"
        yield _entry("note", why, ends, step)
    if all(page["rows"]["bounded"] for page in pages):
        return
    many = [row for row in rows if row.begins - row.bos_twice > 1 and not row.restarts]
    if many:
        why = "several texts begin in one row, and neither positions nor mask keep them apart"
        yield _entry("note", why, many, step, "packed rows, or a template that begins each turn")
    packed = [row for row in rows if row.restarts]
    if packed:
        why = "packed rows: positions begin anew, and the attention mask does not tell where"
        yield _entry("note", why, packed, step)


def _kept(
    pages: Sequence[Page], account: Account, entries: Sequence[Entry]
) -> Iterator[dict[str, Any]]:
    """Rows as text, with the weights of their targets; what is odd about them first."""
    for page in pages:
        for part in page["rows"]["kept"]:
            for at, row in enumerate(part["rows"]):
                place = f"row {row} of micro-batch {part['micro']} on rank {page['rank']}"
                why = next((e.why for e in entries if f"{e.what} ".startswith(f"{place} ")), "")
                if not why and (at or part["micro"]):
                    continue
                weights = targets.weights(page, part["micro"], int(row))
                pieces = [*_pieces(part, at, weights, account)]
                yield {"rank": page["rank"], "row": int(row), "micro": part["micro"], "why": why,
                       "pieces": pieces}  # fmt: skip


def _pieces(
    part: Mapping[str, Any], at: int, weights: Mapping[int, float], account: Account
) -> Iterator[list[Any]]:
    ids, marks, start = part["ids"][at], part["marks"][at], int(part["start"][at])
    told = account.text(ids) if account.text else [f"⟨{each}⟩" for each in ids]
    for place, (text, mark) in enumerate(zip(told, marks, strict=True), start):
        if mark != PAD:
            # The weight of a target is read at the position before it.
            yield [text, weights.get(place - 1, True) if mark == TARGET else None]
