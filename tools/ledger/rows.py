"""Rows of a tiny vision-language model as a processor would give them: a begin, an image, a
question, an answer of its own length, an end, pads on the right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.kit.vlms import IMAGE, VOCABULARY
from tools.matrix import families

PAD, BEGIN, END = 0, 1, 2
START, STOP = families.START, families.END
_SPECIAL = {PAD: "<pad>", BEGIN: "<s>", END: "</s>", IMAGE: "<image>", START: "<|vision_start|>",
            STOP: "<|vision_end|>"}  # fmt: skip


def tokens(
    number: int, image: bool, count: int, answers: tuple[int, int] = (2, 9)
) -> tuple[list[int], int]:
    """A row's tokens, and how many of its last ones are its answer with the end.

    count: placeholders of the image.
    """
    chance = random.Random(f"row {number}")
    seen = [START, *[IMAGE] * count, STOP] if image else []
    question = [chance.randrange(5, 290) for _ in range(chance.randint(4, 10))]
    answer = [chance.randrange(5, 290) for _ in range(chance.randint(*answers))]
    return [BEGIN, *seen, *question, *answer, END], len(answer) + 1


def batch(
    family: families.Family | None,
    numbers: Sequence[int],
    known: frozenset[str] = frozenset(),
    image: Callable[[int], bool] = lambda number: True,
    answers: tuple[int, int] = (2, 9),
) -> dict[str, torch.Tensor]:
    """The rows of these numbers together; family: None for texts alone."""
    seen = [family is not None and image(number) for number in numbers]
    medium = family.one[0] if family else None
    count = medium.tokens if medium else 0
    made = [tokens(n, s, count, answers) for n, s in zip(numbers, seen, strict=True)]
    longest = max(len(ids) for ids, _ in made)
    told: dict[str, torch.Tensor] = {
        "input_ids": torch.tensor([ids + [PAD] * (longest - len(ids)) for ids, _ in made]),
        "attention_mask": torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i, _ in made]),
        "labels": torch.tensor([[-100] * (len(ids) - n) + ids[-n:] + [-100] * (longest - len(ids))
                                for ids, n in made]),
    }  # fmt: skip
    if "mm_token_type_ids" in known:
        told["mm_token_type_ids"] = (told["input_ids"] == IMAGE).long()
    if "token_type_ids" in known:
        told["token_type_ids"] = (told["input_ids"] == IMAGE).long()
    return told | (
        _pixels(medium, [n for n, s in zip(numbers, seen, strict=True) if s]) if medium else {}
    )


def _pixels(medium: families.Medium, numbers: Sequence[int]) -> dict[str, torch.Tensor]:
    made = [medium.make(torch.Generator().manual_seed(7919 * number + 13)) for number in numbers]
    keys = made[0] if made else {}
    return {key: torch.cat([each[key] for each in made], medium.along) for key in keys}


def tokenizer() -> Any:
    """A tokenizer with these ids, so that a row can be shown as text."""
    import tokenizers
    import transformers

    words = {_SPECIAL.get(number, f"w{number}"): number for number in range(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w3"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="w3"
    )
