"""A row of each kind for a model whose processor nobody has: text, images, video, audio.

Shapes follow from the names of the forward's arguments, tried from the likeliest to the least; how
many placeholders a row needs is asked of the model, which counts its features itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from vlmguard_torch import example_media as media

KINDS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "text": (),
    "image": (("image", 1),),
    "images": (("image", 2),),
    "video": (("video", 1),),
    "image+video": (("image", 1), ("video", 1)),
    "audio": (("audio", 1),),
}
"""Kind of a row: its media, and how many of each."""
TEXT = 6
"""Tokens of text before, between and after the media."""
_TOO_FEW = re.compile(r"tokens:?\D*(\d+)\D+features:?\D*(\d+)", re.DOTALL)


def kinds_of(model: Any) -> tuple[str, ...]:
    """The kinds that the class accepts, going by its arguments and its ``get_*_features``."""
    accepted = {name for name in media.NAMES if media.accepts(model, name)}
    return tuple(kind for kind, parts in KINDS.items() if {name for name, _ in parts} <= accepted)


def run(model: Any, kind: str, step: Callable[[dict[str, Any]], Any]) -> Any:
    """What ``step`` returns for the first row of this kind that the model takes.

    Raises the first candidate's error where it takes none.
    """
    first: Exception | None = None
    for parts in _combinations(model, KINDS[kind]):
        try:
            return _counted(model, parts, step)
        except Exception as error:
            first = first or error
    raise first or TypeError(f"no input for a row of kind {kind!r}")


Part = tuple[str, int, dict[str, Any]]


def _combinations(model: Any, wanted: tuple[tuple[str, int], ...]) -> Iterator[list[Part]]:
    """Candidates of each medium; of two media, the one found right for each alone."""
    if not wanted:
        yield []
        return
    (name, number), rest = wanted[0], wanted[1:]
    for inputs in media.candidates(model, name, number):
        for others in _combinations(model, rest):
            yield [(name, number, inputs), *others]


def _counted(model: Any, parts: list[Part], step: Callable[[dict[str, Any]], Any]) -> Any:
    """The step on a row with as many placeholders as the model has features."""
    counts = [media.count(model, name, inputs) for name, _, inputs in parts]
    for _ in range(len(parts) + 1):
        try:
            return step(
                row(model, parts, [count or number for count, (_, number, _) in zip(counts, parts)])
            )
        except ValueError as error:
            told = _TOO_FEW.search(str(error))
            wrong = None if told is None else _wrong(parts, counts, int(told[1]))
            if told is None or wrong is None:
                raise
            counts[wrong] = int(told[2])
    return step(row(model, parts, [count or 1 for count in counts]))


def _wrong(parts: list[Part], counts: list[int | None], tokens: int) -> int | None:
    """Which medium the message is about: the one with that many placeholders."""
    for index, (_, number, _) in enumerate(parts):
        if (counts[index] or number) == tokens:
            return index
    return None


def row(model: Any, parts: list[Part], counts: list[int]) -> dict[str, Any]:
    """One sample: text, then each medium's placeholders and text again."""
    taken = media.special_ids(model.config)
    words = [number for number in range(5, 5 + 40 + len(taken)) if number not in taken]
    ids, types = words[:TEXT], [0] * TEXT
    inputs: dict[str, Any] = {}
    for (name, number, given), count in zip(parts, counts, strict=True):
        inputs.update(given)
        for item in range(number):
            share = count // number + (count % number if item == number - 1 else 0)
            before, pad, after = media.placeholder(model.config, name)
            run_of = [
                *before,
                *[pad] * (share if pad is not None else 0),
                *after,
                *words[TEXT : 2 * TEXT],
            ]
            kind = 1 + media.NAMES.index(name)
            types += [kind if token == pad else 0 for token in run_of]
            ids += run_of
    return inputs | _along(model, torch.tensor([ids]), torch.tensor([types]), inputs)


def _along(
    model: Any, ids: torch.Tensor, types: torch.Tensor, inputs: dict[str, Any]
) -> dict[str, Any]:
    """What goes along with the ids, where the forward has an argument for it."""
    names = media.arguments(model)
    length = ids.shape[1]
    made: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if media.own_argument(model, "labels"):
        made["labels"] = torch.where(types > 0, -100, ids)
    if "token_type_ids" in names:
        made["token_type_ids"] = (types > 0).long()
    if "mm_token_type_ids" in names:
        made["mm_token_type_ids"] = types
    if "use_cache" in names or any(
        part.kind is inspect.Parameter.VAR_KEYWORD for part in media.signature(model).values()
    ):
        made["use_cache"] = False
    if "cross_attention_mask" in names and "aspect_ratio_mask" in inputs:
        tiles = inputs["aspect_ratio_mask"]
        made["cross_attention_mask"] = tiles[:, None].expand(-1, length, -1, -1).clone()
    if "image_attention_mask" in names and "pixel_values" in inputs:
        made["image_attention_mask"] = torch.ones(1, length, inputs["pixel_values"].shape[1]).long()
    return made
