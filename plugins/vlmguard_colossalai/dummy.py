"""Complete a text-only batch: a blank image after the last token of its first row, without a label.

Built by the model's own processor. In a causal model no token before it can see it, and its labels
are -100: the loss is the same, every gradient of the vision tower is exactly zero, and every rank
runs the tower. Whether the model is one is declared (`vlmguard_torch.media.families`) or tried
(`trial`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

_SIDE = 28  # pixels; the processor resizes it to the model's size
_IGNORED = -100
_USUAL = "<image>"


class CannotComplete(Exception):
    """Why no dummy image can be built, or put into this batch."""


@dataclass(frozen=True)
class Block:
    """One encoded image.

    Attributes:
        tokens: what is aligned with its token ids, the ids included; each of shape (1, n).
        visual: pixel values, grids, sizes: the entries that a text-only batch lacks.
        pad: id for the rows that get no image.
    """

    tokens: Mapping[str, torch.Tensor]
    visual: Mapping[str, torch.Tensor]
    pad: int = 0
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", int(self.tokens["input_ids"].shape[1]))

    @property
    def ids(self) -> list[int]:
        """Its token ids."""
        return [int(number) for number in self.tokens["input_ids"][0]]


def build(processor: Any) -> Block:
    """The block that ``processor`` makes of one image. Raises `CannotComplete` with the reason."""
    try:
        from PIL import Image
    except ImportError as error:
        raise CannotComplete(f"Pillow is needed to draw it: {error}") from error
    reason = ""
    for text in _texts(processor):
        try:
            black = Image.new("RGB", (_SIDE, _SIDE))
            made = dict(processor(text=[text], images=[black], return_tensors="pt"))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        return _block(made, processor)
    raise CannotComplete(f"{type(processor).__name__} does not make one: {reason}")


def _texts(processor: Any) -> Iterator[str]:
    """Texts that hold one image, the processor's own markup first."""
    if getattr(processor, "chat_template", None):
        with contextlib.suppress(Exception):  # if the template fails, try the token
            yield processor.apply_chat_template(
                [{"role": "user", "content": [{"type": "image"}]}], tokenize=False
            )
    token = getattr(processor, "image_token", None)
    yield token if isinstance(token, str) else _USUAL


def _block(made: dict[str, Any], processor: Any) -> Block:
    ids = made.get("input_ids")
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2:
        raise CannotComplete("it gives no input_ids of shape (rows, tokens)")
    tokens, visual = {}, {}
    for name, value in made.items():
        if not isinstance(value, torch.Tensor):
            continue
        if value.shape == ids.shape:
            tokens[name] = value
        else:
            visual[name] = value  # unchanged: some models drop zero pixels as padding
    if not visual:
        raise CannotComplete("it gives no pixel values")
    pad = getattr(getattr(processor, "tokenizer", None), "pad_token_id", None)
    return Block(tokens, visual, pad if isinstance(pad, int) else 0)


def placeholder(processor: Any) -> int | None:
    """The token that stands for an image, as far as ``processor`` names one."""
    token = getattr(processor, "image_token_id", None)
    word = getattr(processor, "image_token", None)
    tokenizer = getattr(processor, "tokenizer", None)
    if not isinstance(token, int) and isinstance(word, str):
        token = getattr(tokenizer, "convert_tokens_to_ids", lambda _: None)(word)
    unknown = getattr(tokenizer, "unk_token_id", None)
    return token if isinstance(token, int) and token != unknown else None


def placed(block: Block, device: torch.device) -> Block:
    """``block`` on ``device``, to be kept: moving it anew for each batch would wait."""
    return Block(
        {name: value.to(device) for name, value in block.tokens.items()},
        {name: value.to(device) for name, value in block.visual.items()},
        block.pad,
    )


def complete(block: Block, batch: Mapping[str, Any], every_row: bool = False) -> dict[str, Any]:
    """A copy of ``batch`` with the image in its first row, or one in every row; its tensors are not
    changed.

    Raises:
        CannotComplete: an entry cannot be continued without changing what the model computes, or
            the batch has an image of its own.
    """
    own = [name for name in block.visual if batch.get(name) is not None]
    if own:
        raise CannotComplete(f"the batch has {', '.join(own)} of its own")
    ids, labels = batch.get("input_ids"), batch.get("labels")
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2:
        raise CannotComplete("the batch has no input_ids of shape (rows, tokens)")
    if not isinstance(labels, torch.Tensor) or labels.shape != ids.shape:
        raise CannotComplete("the batch has no labels: the image's tokens would count in the loss")
    number = ids.shape[0] if every_row else 1
    done = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and _aligned(value, ids):
            done[name] = torch.cat([value, _tail(name, value, block, number)], dim=-1)
        else:
            done[name] = value
    done.update({name: torch.cat([value] * number) for name, value in block.visual.items()})
    return done


def _aligned(value: torch.Tensor, ids: torch.Tensor) -> bool:
    return value.ndim >= 2 and ids.shape[1] in value.shape[1:]


def _tail(name: str, value: torch.Tensor, block: Block, number: int) -> torch.Tensor:
    """What comes after ``value``: the image in the first ``number`` rows, filler in the others."""
    rows = value.shape[0]
    if value.ndim != 2:
        raise CannotComplete(f"{name} has the shape {tuple(value.shape)}")
    if name == "position_ids":
        ahead = torch.arange(1, block.length + 1, device=value.device)
        return value.amax(-1, keepdim=True) + ahead
    filler = {"input_ids": block.pad, "labels": _IGNORED}.get(name, 0)
    tail = value.new_full((rows, block.length), filler)
    if name in block.tokens:
        tail[:number] = block.tokens[name][0].to(value)
    elif name != "labels" and not any(part in name for part in ("mask", "weight")):
        raise CannotComplete(f"{name} goes with the tokens, and what it means is not known")
    elif name == "attention_mask":
        tail[:number] = 1
    return tail
