"""ms-swift's encoded rows, before collation → `Batch`. Lists and CPU tensors only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from vlmguard.core.facts import Batch, Phase, Sample
from vlmguard_swift import sources
from vlmguard_torch import families

VISUAL = ("pixel_values", "pixel_values_videos", "image_grid_thw", "video_grid_thw", "image_sizes",
          "image_bound", "tgt_sizes")  # fmt: skip
_INNER = ("prompt_input_ids", "answer_input_ids")


def rows(batch: Any) -> Iterator[Mapping[str, Any]]:
    """Rows of a batch; packed rows one by one."""
    for row in batch:
        if isinstance(row, Mapping):
            yield row
        elif isinstance(row, (list, tuple)):
            yield from rows(row)


def prefixes(row: Mapping[str, Any]) -> list[str]:
    """Parts of a row: "" or "chosen_", "rejected_", "anchor_", …"""
    return [
        key.removesuffix("input_ids")
        for key in row
        if key.endswith("input_ids") and key not in _INNER
    ]


def keys(row: Mapping[str, Any], prefix: str) -> tuple[str, ...]:
    """Visual entries that are there."""
    return tuple(key for key in VISUAL if row.get(prefix + key) is not None)


def batch(template: Any, encoded_rows: Any, phase: Phase = "train") -> Batch:
    """Facts about the rows that are about to be collated."""
    config = getattr(template, "config", None)
    family = families.of(config)
    ids = family.placeholder_ids(config) if family else frozenset()
    samples, kinds = [], set()
    for row in rows(encoded_rows):
        for prefix in prefixes(row):
            present = keys(row, prefix)
            kinds.update(_kinds(present))
            samples.append(_sample(row, prefix, present, family, ids, config))
    if not kinds and samples:
        kinds = {"text"}
    return Batch(tuple(samples), tuple(sorted(kinds)), phase=phase)


def _kinds(present: tuple[str, ...]) -> set[str]:
    return {"video" if "video" in key else "image" for key in present if "pixel_values" in key}


def _sample(
    row: Mapping[str, Any], prefix: str, present: tuple[str, ...], family: Any,
    ids: frozenset[int], config: Any,
) -> Sample:  # fmt: skip
    tokens = row[prefix + "input_ids"]
    listed = isinstance(tokens, (list, tuple)) and all(isinstance(t, int) for t in tokens[:1])
    if family is None or not listed or "inputs_embeds" in row:
        return Sample(keys=present, prefix=prefix)
    missing = tuple(
        needed if needed not in present else "pixel_values"
        for key, all_needed in family.needs.items()
        for needed in all_needed
        if (key in present) != (needed in present)
    )
    count = sum(token in ids for token in tokens) if ids else None
    expected = None if missing else family.expected(row, config, prefix)
    sample = Sample(count, expected, keys=present, missing=missing, prefix=prefix)
    odd = missing or (count and (not present or expected not in (None, count)))
    return _known(sample, row, tokens, ids, config) if odd else sample


def _known(
    sample: Sample, row: Mapping[str, Any], tokens: Any, ids: frozenset[int], config: Any
) -> Sample:
    """What the row of the data says of an odd sample. Text may hold a placeholder's spelling."""
    source = sources.of(row)
    if source is not None:
        return replace(sample, images=sources.media(source), name=sources.name(source))
    start = getattr(config, "vision_start_token_id", None)
    if start is None or sample.keys:
        return sample
    opened = any(before == start and token in ids for before, token in pairwise(tokens))
    return sample if opened else replace(sample, images=0)
