"""Rows of the matrix: tensors alone, no processor; every rank of every run can make each.

A row has `LENGTH` tokens; the last `LABELS` are learned, in every row alike: then the mean over
ranks and micro-batches, and the mean over tokens that transformers makes, are one number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tools.matrix.families import END, START, Family

LENGTH, LABELS = 48, 8
WORLD = 2

Kind = str  # "text", "one" (one medium) or "two" (two media in the sample)
Who = Callable[[int, int], Kind]


def one(rank: int, step: int) -> Kind:
    """One rank, another in each step, has a medium."""
    return "one" if rank == step % WORLD else "text"


def others(rank: int, step: int) -> Kind:
    return "text" if rank == step % WORLD else "one"


def every(rank: int, step: int) -> Kind:
    return "one"


def none(rank: int, step: int) -> Kind:
    return "text"


def two(rank: int, step: int) -> Kind:
    return "two"


def two_or_one(rank: int, step: int) -> Kind:
    return "two" if rank == step % WORLD else "one"


def two_or_text(rank: int, step: int) -> Kind:
    return "two" if rank == step % WORLD else "text"


PLANS: dict[str, list[tuple[Who, ...]]] = {
    # One tuple for each step, with one or two micro-batches: which rank has what.
    "differ": [(one,), (one,), (one,)],
    "phases": [(every,), (none,), (every,)],
    "both": [(two,), (two_or_one,), (two_or_text,)],
    "accumulated": [(one, others), (one, none), (every, one)],
    "between": [(one,), (others,)],
}
EVALUATED: tuple[Who, ...] = (one, none, others)
"""After each step of "between": the loss of one row a rank each, and a few new tokens."""
NEW_TOKENS = 3


def flat(order: str) -> list[Kind]:
    """The rows of a plan as a sequential sampler hands them out: rank after rank, micro-batch after
    micro-batch, step after step."""
    return [
        who(rank, number)
        for number, step in enumerate(PLANS[order])
        for who in step
        for rank in range(WORLD)
    ]


def accumulation(order: str) -> int:
    return len(PLANS[order][0])


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Numbers of rows and what they hold, as a script's own data set."""

    def __init__(self, kinds: Sequence[Kind], first: int = 0) -> None:
        self.kinds, self.first = kinds, first

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, number: int) -> tuple[int, Kind]:
        return self.first + number, self.kinds[number]


class Collate:
    """One (number, kind) → the batch. spoil: number of a row that is made as another."""

    def __init__(self, family: Family, model: Any, spoil: int | None = None) -> None:
        self.family, self.spoil = family, spoil
        self.known = frozenset(inspect.signature(type(model).forward).parameters)

    def __call__(self, rows: Sequence[tuple[int, Kind]]) -> dict[str, torch.Tensor]:
        ((number, kind),) = rows
        number = 500 + number if number == self.spoil else number
        return row(self.family, self.known, number, kind)


def evaluated() -> Rows:
    """What is evaluated on, one row a rank and batch."""
    return Rows([who(rank, 0) for who in EVALUATED for rank in range(WORLD)], first=100)


def row(
    family: Family, known: frozenset[str], number: int, kind: Kind
) -> dict[str, torch.Tensor]:
    """One sample; ``number`` seeds its text and its pixels."""
    if hasattr(family, "row"):  # a class of the zoo
        return family.row(number, kind)  # type: ignore[no-any-return]
    generator = torch.Generator().manual_seed(7919 * number + 13)
    ids = torch.randint(5, 290, (1, LENGTH), generator=generator)
    types = torch.zeros_like(ids)
    told: dict[str, torch.Tensor] = {}
    media = {"text": (), "one": family.one, "two": family.two}[kind]
    # Right before the labels, where a sliding window still reaches them.
    at = LENGTH - LABELS - sum(medium.tokens + 2 for medium in media)
    assert at > 1, "no room for the media"
    for medium in media:
        made = medium.make(generator)
        for name, value in made.items():
            told[name] = torch.cat([told[name], value], medium.along) if name in told else value
        ids[0, at], ids[0, at + 1 + medium.tokens] = START, END
        ids[0, at + 1 : at + 1 + medium.tokens] = medium.token
        types[0, at + 1 : at + 1 + medium.tokens] = medium.type
        at += medium.tokens + 2
    told |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in known:
        told["mm_token_type_ids"] = types
    if family.name == "mllama" and media:
        told["cross_attention_mask"] = torch.ones(1, LENGTH, len(media), 1, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    labels[0, -LABELS:] = ids[0, -LABELS:]
    told["labels"] = labels
    if "token_type_ids" in known:
        # PaliGemma: 1 for the answer; all tokens attend to those before it. Gemma3: 1 for images.
        answers = family.name == "paligemma"
        told["token_type_ids"] = ((labels != -100) if answers else (types > 0)).long()
    return told
