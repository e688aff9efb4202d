"""Rows of a drawn run: which kind stands where, and the batch that a collator makes of them."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from typing import Any

import torch

from tools.matrix.families import Family, Medium
from tools.ordinary.draws import KINDS, Draw

LENGTH, LABELS = 48, 8
Row = tuple[int, str]
"""A row's number, which seeds its text and pixels, and its kind."""


def plan(draw: Draw, micros: int) -> list[str]:
    """Kinds as a sequential sampler hands rows out: micro-batch by micro-batch, rank by rank.

    micros: micro-batches of one rank. Under strategies in which ranks gather a tower together, all
    ranks have the same kind at a time; no two rows without a target stand side by side, or no two
    micro-batches of them.
    """
    chance, weights = random.Random(f"rows {draw.name}"), KINDS[draw.rows]
    together = draw.rows.startswith("phases") or draw.strategy in (
        "fsdp2", "zero3", "zero2", "zero1"
    )  # fmt: skip
    found: list[str] = []
    for _ in range(micros):
        alike = _not_twice(chance.choices(list(weights), list(weights.values()))[0], found)
        for _ in range(draw.world * draw.batch):
            drawn = chance.choices(list(weights), list(weights.values()))[0]
            found.append(alike if together else _not_twice(drawn, found))
    return found


def _not_twice(kind: str, found: Sequence[str]) -> str:
    return "image" if kind == "no target" == (found or [""])[-1] else kind


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Numbered rows with their kinds."""

    def __init__(self, kinds: Sequence[str], first: int = 0) -> None:
        self.kinds, self.first = kinds, first

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, number: int) -> Row:
        return self.first + number, self.kinds[number]


class Collate:
    """Rows → the batch that a processor would have given: tensors alone."""

    def __init__(self, family: Family, model: Any) -> None:
        self.family = family
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.known = frozenset(inspect.signature(type(inner).forward).parameters)

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        made = [row(self.family, self.known, *each) for each in rows]
        keys = dict.fromkeys(key for each in made for key in each)
        return {key: torch.cat([each[key] for each in made if key in each]) for key in keys}


def _media(family: Family, kind: str) -> tuple[Medium, ...]:
    return {
        "text": (), "dummy": (), "image": family.one, "no target": family.one, "two": family.two,
        "video": family.two[1:],
    }[kind]  # fmt: skip


def row(family: Family, known: frozenset[str], number: int, kind: str) -> dict[str, torch.Tensor]:
    """One sample of ``LENGTH`` tokens, the last ``LABELS`` of them learned."""
    generator = torch.Generator().manual_seed(7919 * number + 13)
    ids = torch.randint(5, 290, (1, LENGTH), generator=generator)
    types, told = torch.zeros_like(ids), {}
    media = _media(family, kind)
    at = LENGTH - LABELS - sum(medium.tokens + 2 for medium in media)
    for medium in media:
        for name, value in medium.make(generator).items():
            told[name] = torch.cat([told[name], value], medium.along) if name in told else value
        here = slice(at + 1, at + 1 + medium.tokens)
        ids[0, at], ids[0, here.stop] = 302, 303
        ids[0, here], types[0, here] = medium.token, medium.type
        at += medium.tokens + 2
    if kind == "dummy":  # as InternVL: no token stands for these pixels
        told = {name: torch.zeros_like(value) if value.is_floating_point() else value
                for name, value in family.one[0].make(generator).items()}  # fmt: skip
    return told | _words(family, known, ids, types, kind, len(media))


def _words(
    family: Family, known: frozenset[str], ids: Any, types: Any, kind: str, media: int
) -> dict[str, torch.Tensor]:
    labels = torch.full_like(ids, -100)
    if kind != "no target":
        labels[0, -LABELS:] = ids[0, -LABELS:]
    told = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    if "mm_token_type_ids" in known:
        told["mm_token_type_ids"] = types
    if family.name == "mllama" and media:
        told["cross_attention_mask"] = torch.ones(1, LENGTH, media, 1, dtype=torch.long)
    if "token_type_ids" in known:
        answers = family.name == "paligemma"
        told["token_type_ids"] = ((labels != -100) if answers else (types > 0)).long()
    return told
