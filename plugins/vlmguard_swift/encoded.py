"""ms-swift's encoded rows, before collation → `Batch`. Lists and CPU tensors only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from vlmguard.core.facts import Batch, Phase, Sample
from vlmguard_swift import counting, row_origin
from vlmguard_torch.media import families

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


@dataclass(frozen=True)
class Part:
    """A row, or one part of a pair, before collation, which takes entries out of rows.

    Attributes:
        row: as it was encoded; ``tokens`` are its ids.
        counted: whether its placeholders can be counted.
    """

    row: Mapping[str, Any]
    prefix: str
    present: tuple[str, ...]
    tokens: Any
    counted: bool
    missing: tuple[str, ...] = ()
    expected: int | None = None


class Look:
    """The rows that are about to be collated, as they are before it."""

    def __init__(self, template: Any, encoded_rows: Any, generated: bool = False) -> None:
        """
        Args:
            generated: whether the policy wrote the parts of the rows that are targets: a
                placeholder that it sampled stands for no input.
        """
        self.generated = generated
        self.config = getattr(template, "config", None)
        family = families.of(self.config)
        self.ids = family.placeholder_ids(self.config) if family else frozenset()
        self.parts = [
            _part(row, prefix, family, self.config)
            for row in rows(encoded_rows)
            for prefix in prefixes(row)
        ]

    def batch(self, phase: Phase = "train", collated: Any = None) -> Batch:
        """Facts about them. Where the collated tokens hold what the rows' media need, no row is
        counted by itself."""
        right = self._right(collated)
        samples = tuple(self._sample(part, right) for part in self.parts)
        kinds = set().union(*(_kinds(part.present) for part in self.parts))
        if not kinds and samples:
            kinds = {"text"}
        return Batch(samples, tuple(sorted(kinds)), phase=phase)

    def _right(self, collated: Any) -> bool:
        expected = [part.expected for part in self.parts if part.counted and not part.missing]
        if collated is None or not self.ids or len(expected) != len(self.parts):
            return False
        told = [number for number in expected if number is not None]
        return len(told) == len(expected) and counting.agrees(collated, self.ids, told)

    def _sample(self, part: Part, right: bool) -> Sample:
        if not part.counted:
            return Sample(keys=part.present, prefix=part.prefix)
        tokens = _given(part) if self.generated else part.tokens
        count = counting.in_list(tokens, self.ids) if self.ids and not right else None
        count = part.expected if right else count
        sample = Sample(
            count, part.expected, keys=part.present, missing=part.missing, prefix=part.prefix
        )
        odd = part.missing or (count and (not part.present or part.expected not in (None, count)))
        return _known(sample, part.row, tokens, self.ids, self.config) if odd else sample


def _kinds(present: tuple[str, ...]) -> set[str]:
    return {"video" if "video" in key else "image" for key in present if "pixel_values" in key}


def _part(row: Mapping[str, Any], prefix: str, family: Any, config: Any) -> Part:
    tokens, present = row[prefix + "input_ids"], keys(row, prefix)
    listed = isinstance(tokens, (list, tuple)) and all(isinstance(t, int) for t in tokens[:1])
    if family is None or not listed or "inputs_embeds" in row:
        return Part(row, prefix, present, tokens, counted=False)
    missing = tuple(
        needed if needed not in present else "pixel_values"
        for key, all_needed in family.needs.items()
        for needed in all_needed
        if (key in present) != (needed in present)
    )
    expected = None if missing else family.expected(row, config, prefix)
    return Part(row, prefix, present, tokens, True, missing, expected)


def _given(part: Part) -> Any:
    """The tokens of a row that are no targets; all of them where it has no labels."""
    labels = part.row.get(part.prefix + "labels")
    if not isinstance(labels, (list, tuple)) or len(labels) != len(part.tokens):
        return part.tokens
    return [token for token, label in zip(part.tokens, labels, strict=True) if label == -100]


def _known(
    sample: Sample, row: Mapping[str, Any], tokens: Any, ids: frozenset[int], config: Any
) -> Sample:
    """What the row of the data says of an odd sample. Text may hold a placeholder's spelling."""
    source = row_origin.of(row)
    if source is not None:
        return replace(sample, images=row_origin.media(source), name=row_origin.name(source))
    start = getattr(config, "vision_start_token_id", None)
    if start is None or sample.keys:
        return sample
    opened = any(before == start and token in ids for before, token in pairwise(tokens))
    return sample if opened else replace(sample, images=0)
