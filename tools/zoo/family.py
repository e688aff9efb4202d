"""A class of the zoo as the matrix's runs take a family: its tiny model, and rows of text and of
one input, of the shapes that observation found."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import transformers

from tools.zoo import configs
from vlmguard_torch.media import kinds as media
from vlmguard_torch.observe import example_rows, measure, row_trace
from vlmguard_torch.observe.isolated_state import isolated_state, unpartitioned
from vlmguard_torch.observe.shrink import parts_of, shrink

LABELS = 4
"""Tokens that are learned, at the end of every row: as many in each."""
WORDS = range(20, 60)


class Zoo:
    """Attributes:
    name: as a cell has it; "zoo:Class+audio" for a class whose rows have this kind of input.
    made: the name of the class.
    asked: the kind of input that was named; "" for the first that the class takes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.made, _, self.asked = name.removeprefix("zoo:").partition("+")

    def model(self) -> Any:
        """In training mode, weights loud enough to tell errors from rounding."""
        torch.manual_seed(0)
        kind = getattr(transformers, self.made)
        config = shrink(configs.config(kind)).config
        for part in parts_of(config):
            for name, value in vars(part).items():
                if ("drop" in name or name == "vae_std") and isinstance(value, float):
                    vars(part)[name] = 0.0  # ranks and the oracle draw in different orders
        with unpartitioned():
            model = measure.tiny(kind, config, row_trace.NO_LIMIT)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1 and not weight.any():
                    weight.normal_(0, 0.1)
                if weight.dim() > 1 and 0 < weight.std() < 0.06:
                    weight.mul_(4)
        return model.train()

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        """A row of text and one with an input, as the model took them."""
        with isolated_state():
            model = self.model()
            rows = example_rows.Rows(model, row_trace.TooLong)
            for kind in example_rows.kinds_of(model):
                if kind == "text" or ("one" not in rows.taken and self.asked in ("", kind)):
                    _run(rows, kind, model)
            return rows.taken

    def row(self, number: int, kind: str) -> dict[str, torch.Tensor]:
        """One sample, "text" or "one"; ``number`` seeds its text and what is to be seen in it."""
        generator = torch.Generator().manual_seed(7919 * number + 13)
        told = {name: value.clone() for name, value in self._rows[kind].items()}
        ids = told["input_ids"]
        words = torch.randint(WORDS.start, WORDS.stop, (1, LABELS), generator=generator)
        ids[:, -LABELS:] = words
        labels = torch.full_like(ids, -100)
        labels[:, -LABELS:] = words
        told["labels"] = labels
        for name, value in told.items():
            if value.is_floating_point() and media.kinds_of({name: value}) != ("text",):
                told[name] = torch.rand(value.shape, generator=generator)
        return told


def _run(rows: example_rows.Rows, kind: str, model: Any) -> None:
    try:
        rows.run(kind, lambda row: model(**row).loss.item())
    except Exception:
        if kind == "text":
            raise
        return
    if kind != "text":
        rows.taken["one"] = rows.taken[kind]
