"""What stands in the batches that a model is given: counts for each row, read without waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from vlmguard.ledger.stations.rows import COLUMNS, PAD, TARGET, TEXT
from vlmguard.runtime.faults import contain
from vlmguard_torch.ledger.gradients.unreadable import shares_rows
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.ledger.readers import pixels, special

IGNORED = -100
ROWS = 64
"""Rows of a window that are counted one by one."""
KEPT, WIDTH, BEFORE = (2, 1, 1, 1), 256, 64
"""Rows of the first micro-batches that are kept as text: so many tokens, from some before the
first target."""
_BOUNDS = ("cu_seq_lens_q", "cu_seqlens", "cu_seqlens_q", "seq_idx")
_MIX, _ADD = 6364136223846793005, 1442695040888963407


class Rows(Reader):
    """Reads tokens, targets and pixels of each forward's keyword arguments."""

    name = "rows"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._special = special.of(subject.model, subject.tokenizer)
        self._shared = shares_rows(subject)
        self._writes = contain("the ledger's rows", special.writes, subject.model) is not False
        self.open()

    def open(self) -> None:
        """Nothing was read yet."""
        self._rows, self._seen = 0, False
        self._counts: list[torch.Tensor] = []
        self._digests: list[torch.Tensor] = []
        self._sizes: list[int] = []
        self._kept: list[dict[str, Any]] = []
        self._images: list[torch.Tensor] = []
        self._patches: list[torch.Tensor] = []
        self._flags: dict[str, bool] = {"labels": True, "bounded": True, "pixels": False}

    def batch(self, inputs: Mapping[str, Any]) -> None:
        """Count what the rows hold."""
        ids, self._seen = inputs.get("input_ids"), True
        with torch.no_grad():
            if isinstance(ids, torch.Tensor) and ids.dim() == 2 and ids.numel():
                self._count(ids, inputs)
            self._flags["pixels"] |= pixels.given(inputs)
            if sum(map(len, self._images)) < pixels.MOST:
                self._images.extend(pixels.read(inputs))
                self._patches.extend(pixels.patches(inputs))

    def _count(self, ids: torch.Tensor, inputs: Mapping[str, Any]) -> None:
        batch = _Batch(ids, inputs, self._special, self._writes)
        self._flags["labels"] &= batch.labels is not None
        self._flags["bounded"] &= batch.bounded
        counts = batch.counts()
        self._sizes.append(len(counts))
        if self._rows < ROWS:
            self._counts.append(counts[: ROWS - self._rows])
            self._digests.append(batch.digests()[: ROWS - self._rows])
            self._rows += len(self._counts[-1])
        micro = len(self._sizes) - 1
        if micro < len(KEPT):
            self._kept.append({"micro": micro, **batch.kept(counts, KEPT[micro])})

    def page(self) -> Mapping[str, Any] | str:
        """Counts by row, digests, some rows, numbers of images."""
        if not self._counts:
            return "the model is not given token ids" if self._seen else "no forward was seen"
        return {
            "counts": torch.cat(self._counts),
            "digests": torch.cat(self._digests),
            "sizes": self._sizes,
            "kept": self._kept,
            "images": torch.cat(self._images) if self._images else [],
            "together": [len(each) for each in self._images],
            "patches": torch.stack(self._patches) if self._patches else [],
            "shared": self._shared,
            **self._flags,
        }

    def close(self) -> None:
        """Nothing is kept."""
        self.open()


class _Batch:
    """Rows of one micro-batch, and masks of their tokens."""

    def __init__(
        self, ids: torch.Tensor, inputs: Mapping[str, Any], known: special.Special, writes: bool
    ) -> None:
        self.ids, self.known = ids, known
        mask, labels = inputs.get("attention_mask"), inputs.get("labels")
        flat = isinstance(mask, torch.Tensor) and mask.shape == ids.shape
        self.text = mask != 0 if flat else torch.ones_like(ids, dtype=torch.bool)
        alike = writes and isinstance(labels, torch.Tensor) and labels.shape == ids.shape
        # A copy from one device to another would wait for the GPU.
        self.labels = labels if alike and labels.device == ids.device else None
        self.places = _places(inputs.get("position_ids"), ids)
        self.bounded = not flat or any(inputs.get(name) is not None for name in _BOUNDS)

    def counts(self) -> torch.Tensor:
        """As `COLUMNS`, a line a row."""
        found = {"length": self.text, "media": self.text & _any(self.ids, self.known.media)}
        found |= {"bos_twice": self._bos_twice(), "restarts": self._restarts()}
        found |= {"begins": self.text & _any(self.ids, self.known.only_bos)}
        found |= {"eos": self.text & _any(self.ids, self.known.eos)}
        found |= self._targets()
        return torch.stack([found[name].sum(-1) for name in COLUMNS], -1)

    def _targets(self) -> dict[str, torch.Tensor]:
        target = self.targets()
        labels = self.ids if self.labels is None else self.labels
        pads = ~self.text | _any(self.ids, self.known.only_pad)
        following = torch.cat(
            [self.ids[:, 1:], self.ids[:, :1].new_full((len(self.ids), 1), -1)], 1
        )
        return {
            "targets": target,
            "on_media": target & _any(labels, self.known.media),
            "on_pads": target & pads,
            "own": target & (labels == self.ids),
            "shifted": target & (labels == following),
            "eos_targets": target & _any(labels, self.known.eos),
        }

    def targets(self) -> torch.Tensor:
        """Where a token is learned; the first of a row has nothing that it could follow."""
        if self.labels is None:
            return torch.zeros_like(self.text)
        found = self.labels != IGNORED
        return torch.cat([torch.zeros_like(found[:, :1]), found[:, 1:]], 1)

    def _bos_twice(self) -> torch.Tensor:
        begins = self.text & _any(self.ids, self.known.only_bos)
        return begins[:, 1:] & begins[:, :-1]

    def _restarts(self) -> torch.Tensor:
        if self.places is None:
            return torch.zeros_like(self.text)
        inside = self.text[:, 1:] & self.text[:, :-1]
        return inside & (self.places[:, 1:] < self.places[:, :-1])

    def digests(self) -> torch.Tensor:
        """A number a row, of its tokens and targets at their places."""
        at = torch.arange(self.ids.shape[1], device=self.ids.device) * _MIX + _ADD
        tokens = (self.ids + 3) * self.text + 7 * self.targets()
        return (tokens * (at ^ (at >> 29))).sum(-1)

    def kept(self, counts: torch.Tensor, number: int) -> dict[str, torch.Tensor]:
        """The oddest rows, the first ones where none is: their tokens, and which are targets."""
        told = dict(zip(COLUMNS, counts.unbind(-1), strict=True))
        odd = (told["on_media"] + told["on_pads"] + told["bos_twice"] > 0).long()
        odd = odd + (told["targets"] == 0) + (2 * told["own"] < told["targets"])
        order = odd * len(odd) - torch.arange(len(odd), device=odd.device)
        rows = order.topk(min(number, len(odd))).indices
        target, marks = self.targets(), torch.full_like(self.ids, TEXT)
        marks = marks.masked_fill(~self.text, PAD).masked_fill(target, TARGET)
        start = (target[rows].int().argmax(-1) - BEFORE).clamp(min=0)
        width = min(WIDTH, self.ids.shape[1])
        start = start.clamp(max=self.ids.shape[1] - width)
        at = start[:, None] + torch.arange(width, device=start.device)
        return {
            "rows": rows,
            "start": start,
            "ids": self.ids[rows].gather(1, at),
            "marks": marks[rows].gather(1, at).to(torch.int8),
        }


def _places(found: Any, ids: torch.Tensor) -> torch.Tensor | None:
    """Positions of tokens; of M-RoPE's three the first."""
    if isinstance(found, torch.Tensor):
        found = found[0] if found.dim() == 3 else found
        if found.shape == ids.shape:
            return found
    return None


def _any(ids: torch.Tensor, known: tuple[int, ...]) -> torch.Tensor:
    found = torch.zeros_like(ids, dtype=torch.bool)
    for each in known:
        found = found | (ids == each)
    return found
