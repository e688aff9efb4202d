"""Images of a window: not normalised, constant, all the same, or not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vlmguard.ledger.account import Entry, Page
from vlmguard.ledger.stations import targets

RAW = 20.0
"""A pixel above this was not normalised: means and deviations of processors leave ±3 or so."""
SAME = 1e-9
ENOUGH = 4
"""Images from which on "all of them" is no chance."""
WINDOWS = 2
"""Windows that have to show it."""
BATCHES, MANY = 3, 64
"""Batches that have to show it; those that are remembered."""


def judge(
    pages: Sequence[Page], rows: Sequence[Any], memory: dict[str, Any], step: int
) -> list[Entry]:
    """``rows``: of the same pages, as `vlmguard.ledger.stations.rows.Row`."""
    images = [image for page in pages for image in page["rows"]["images"]]
    if not images:
        return [*_none(pages, rows, memory, step)]
    if not any(row.media for row in rows):
        return []
    fewer = [*_fewer(pages, step)]
    alike = [*_alike(images, pages, memory, step)] or [*_within(pages, memory, step)]
    return [*fewer, *_raw(images, step), *alike]


def _fewer(pages: Sequence[Page], step: int) -> Iterator[Entry]:
    """Patches that the grids tell of, and that the model is not given."""
    counts = [each for page in pages for each in page["rows"].get("patches", ())]
    found = [(int(given), int(told)) for given, told in counts if given < told]
    if found:
        given, told = found[0]
        why = f"fewer pixels than grids: {given} patches, and grids of {told}"
        yield _entry("warning", why, step, _CUT)


def _raw(images: Sequence[Sequence[float]], step: int) -> Iterator[Entry]:
    found = [image for image in images if image[1] > RAW and image[0] >= 0]
    if found and len(found) == len(images):
        high = max(image[1] for image in found)
        why = f"pixels are not normalised: they go up to {high:.4g}"
        yield _entry("warning", why, step, "do_rescale and do_normalize of the image processor")


def _alike(
    images: Sequence[Sequence[float]], pages: Sequence[Page], memory: dict[str, Any], step: int
) -> Iterator[Entry]:
    """Constant, or all the same: over the windows, as blank images beside text are no fault. One
    row over and over has one image."""
    constant = sum(high - low <= SAME * max(abs(high), 1) for low, high, *_ in images)
    known = memory.setdefault("pixels", {"images": 0, "constant": 0, "windows": 0, "first": None,
                                          "texts": set()})  # fmt: skip
    first = known["first"] = known["first"] or list(images[0])
    known["same"] = known.get("same", True) and all(_same(first, image) for image in images)
    known["images"] += len(images)
    known["constant"] += constant
    known["windows"] += 1
    known["texts"].update(int(each) for page in pages for each in page["rows"]["digests"])
    if known["images"] < ENOUGH or known["windows"] < WINDOWS:
        return
    if known["constant"] == known["images"]:
        why = f"all of {known['images']} images are of one colour"
        yield _entry("warning", why, step, _LOADED)
    elif known["same"] and len(known["texts"]) > 1:
        yield _entry("warning", f"all of {known['images']} images are the same", step, _LOADED)


def _within(pages: Sequence[Page], memory: dict[str, Any], step: int) -> Iterator[Entry]:
    """Rows of a batch differ and their images do not, in each batch, which have others. Pairs of a
    preference share theirs, and so do rows of a data set that nobody shuffled."""
    if not targets.are_next(pages):
        return
    batches = memory.setdefault("batches", [])
    batches += [batch for page in pages for batch in _batches(page)]
    firsts = [batch[0] for batch in batches]
    same = all(len(batch) > 1 and all(_same(batch[0], each) for each in batch) for batch in batches)
    apart = not any(_same(a, b) for n, a in enumerate(firsts) for b in firsts[:n])
    if same and apart and len(batches) >= BATCHES:
        why = f"each of {len(batches)} batches has one image for all of its rows"
        yield _entry("warning", why, step, "the collator takes the first row's pixels for all")
    del batches[MANY:]


def _batches(page: Page) -> Iterator[Sequence[Sequence[float]]]:
    """Images by micro-batch, where its rows are not one row repeated."""
    read, at = page["rows"], 0
    if len(set(read["digests"])) < len(read["digests"]):
        return
    for size in read["together"]:
        yield read["images"][at : at + size]
        at += size


_CUT = "a collator that leaves out pixel_values leaves out their image_grid_thw as well"
_LOADED = "images that could not be read are often replaced by a blank one: look at their paths"


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(
        abs(a - b) <= SAME * max(abs(a), abs(b), 1e-30) for a, b in zip(one, other, strict=True)
    )


def _none(
    pages: Sequence[Page], rows: Sequence[Any], memory: dict[str, Any], step: int
) -> Iterator[Entry]:
    """Placeholders, and nothing that could be pixels."""
    found = [row for row in rows if row.media]
    given = any(page["rows"]["pixels"] for page in pages)
    memory["pixels given"] = memory.get("pixels given", False) or given
    if not found or memory["pixels given"]:
        return
    most = 2 * len(found) > len(rows) and sum(row.media for row in found) >= ENOUGH * len(found)
    why = f"{len(found)} of {len(rows)} rows hold placeholders, and the model is given no pixels"
    yield _entry("warning" if most else "note", why, step, "remove_unused_columns=False")


def _entry(level: Any, why: str, step: int, advice: str) -> Entry:
    return Entry("VG611", level, why, since=step, advice=advice)
