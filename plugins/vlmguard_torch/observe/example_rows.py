"""A row of each kind for a model whose processor nobody has: text, images, video, audio.

Shapes follow from the names of the forward's arguments, tried from the likeliest to the least; how
many placeholders a row needs is asked of the model, which counts its features itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from vlmguard_torch.observe import example_media as media

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
_TOO_FEW = (
    re.compile(r"tokens:?\D*(?P<tokens>\d+)\D+features:?\D*(?P<features>\d+)", re.DOTALL),
    # torch's message for an assignment by a mask (Idefics3, before transformers 4.52)
    re.compile(r"value tensor of shape \[(?P<features>\d+).*result of shape \[(?P<tokens>\d+)"),
)


def kinds_of(model: Any) -> tuple[str, ...]:
    """The kinds that the class accepts, going by its arguments and its ``get_*_features``."""
    accepted = {name for name in media.NAMES if media.accepts(model, name)}
    return tuple(kind for kind, parts in KINDS.items() if {name for name, _ in parts} <= accepted)


Part = tuple[str, int, int | None, dict[str, Any]]
"""A medium, how many of it, the placeholder, and the inputs they make."""
Step = Callable[[dict[str, Any]], Any]


class Rows:
    """Rows for one model; what was found right for a medium alone serves a row of several.

    Attributes:
    model: the model that takes them.
    giving_up: errors that no other candidate would mend.
    taken: kind → the row that the model took.
    """

    def __init__(self, model: Any, giving_up: type[Exception]) -> None:
        self.model = model
        self.giving_up = giving_up
        self.taken: dict[str, dict[str, Any]] = {}
        self._right: dict[str, int] = {}

    def run(self, kind: str, step: Step) -> Any:
        """What ``step`` returns for the first row of this kind that the model takes.

        Raises the first candidate's error where it takes none.
        """
        wanted = KINDS[kind]

        def kept(row: dict[str, Any]) -> Any:
            done = step(row)
            self.taken[kind] = row
            return done

        first: Exception | None = None
        for chosen in self._choices(wanted):
            try:
                done = self._counted(self._parts(wanted, chosen), kept)
            except self.giving_up:
                raise
            except Exception as error:
                first = first or error
                continue
            self._right.update({name: at for (name, _), at in zip(wanted, chosen, strict=True)})
            return done
        raise first or TypeError(f"no input is known for a row of kind {kind!r}")

    def chosen(self, name: str) -> int | None:
        """Which of `example_media.candidates` was right for this medium; None before one was."""
        right = self._right.get(name)
        number = len(list(media.candidates(self.model, name, 1)))
        return None if right is None or not number else right % number

    def _choices(self, wanted: tuple[tuple[str, int], ...]) -> list[tuple[int, ...]]:
        """Numbers of candidates to try, one for each medium."""
        known = [self._right.get(name) for name, _ in wanted]
        if None not in known:
            return [tuple(at for at in known if at is not None)]
        if len(wanted) > 1:
            return []
        return [
            (at,) for name, number in wanted for at in range(len(self._candidates(name, number)))
        ]

    def _candidates(self, name: str, number: int) -> list[Part]:
        pads = media.placeholders(self.model.config, name)
        made = list(media.candidates(self.model, name, number))
        return [(name, number, pad, inputs) for pad in pads for inputs in made]

    def _parts(self, wanted: tuple[tuple[str, int], ...], chosen: tuple[int, ...]) -> list[Part]:
        return [
            self._candidates(name, number)[at]
            for (name, number), at in zip(wanted, chosen, strict=True)
        ]

    def _counted(self, parts: list[Part], step: Step) -> Any:
        """The step on a row with as many placeholders as the model has features: as it says
        itself, else as its error says, else one an item."""
        asked = [media.count(self.model, name, inputs) for name, _, _, inputs in parts]
        numbers = [number for _, number, _, _ in parts]
        counts = [count or 2 * number for count, number in zip(asked, numbers, strict=True)]
        for _ in range(len(parts) + 1):
            try:
                return step(row(self.model, parts, counts))
            except self.giving_up:
                raise
            except Exception as error:
                told = next(filter(None, (kind.search(str(error)) for kind in _TOO_FEW)), None)
                if told is not None and int(told["tokens"]) in counts:
                    counts[counts.index(int(told["tokens"]))] = int(told["features"])
                elif None in asked and counts != numbers:
                    counts = numbers
                else:
                    raise
        return step(row(self.model, parts, counts))


def row(model: Any, parts: list[Part], counts: list[int]) -> dict[str, Any]:
    """One sample: text, then each medium's placeholders and text again."""
    taken = media.special_ids(model.config)
    words = [number for number in range(5, 5 + 40 + len(taken)) if number not in taken]
    ids, types = words[:TEXT], [0] * TEXT
    inputs: dict[str, Any] = {}
    for (name, number, pad, given), count in zip(parts, counts, strict=True):
        inputs.update(given)
        for item in range(number):
            share = count // number + (count % number if item == number - 1 else 0)
            before, after = media.around(model.config, name)
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
    if "cross_attention_mask" in names and "aspect_ratio_mask" in inputs:
        tiles = inputs["aspect_ratio_mask"]
        made["cross_attention_mask"] = tiles[:, None].expand(-1, length, -1, -1).clone()
    if "image_attention_mask" in names and "pixel_values" in inputs:
        made["image_attention_mask"] = torch.ones(1, length, inputs["pixel_values"].shape[1]).long()
    return made
