"""Whether an image behind the text changes nothing: tried on the plain model, before it is wrapped.

Three forwards without gradient: text alone, the same with the image behind it, and with another
image there. The second must have the loss of the first; the third, of the same shapes, that of the
second: text that sees the image would tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from vlmguard_colossalai import dummy
from vlmguard_torch.layout.towers import plain
from vlmguard_torch.watch import dry_run

_WORDS = "one two three four five six seven"
_CLOSE = {torch.float32: 1e-5, torch.float64: 1e-9}
_CLOSE_IN_HALF = 2e-3
"""Sums of another length round otherwise; what text sees of an image is far more, in float32."""
_SAME = 1e-6
_MOST_ON_CPU = 2_000_000_000
"""Weights of a model that is tried where it lies; a larger one would take minutes there."""


def why_not(
    model: Any,
    processor: Any,
    block: dummy.Block,
    every_row: bool,
    towers: Iterable[str] = (),
) -> str:
    """Why the image is not seen to change nothing, or is not needed; "" where it is.

    towers: paths of modules that run for an image.
    """
    weights = list(model.parameters())
    if why := dry_run.unready(model):
        return why
    if weights[0].device.type == "cpu" and sum(p.numel() for p in weights) > _MOST_ON_CPU:
        return "the model is too large to try it on the CPU"
    try:
        return _tried(model, processor, block, every_row, tuple(towers))
    except Exception as error:
        return f"tried on the plain model: {type(error).__name__}: {error}"


def _tried(
    model: Any, processor: Any, block: dummy.Block, every_row: bool, towers: tuple[str, ...]
) -> str:
    text = _text(processor)
    device = next(model.parameters()).device
    text = {name: value.to(device) for name, value in text.items()}
    blanks = [dummy.placed(each, device) for each in (block, _other(block))]
    completed = [dummy.complete(each, text, every_row) for each in blanks]
    with dry_run.kept(model), torch.no_grad():
        model.eval()
        with _called(model, towers) as called:
            without = _loss(model, text)
        one, other = (_loss(model, batch) for batch in completed)
    if called:
        return f"text alone runs {called[0]}: the model has a dummy of its own"
    scale = abs(without) or 1.0
    dtype = next(model.parameters()).dtype
    if abs(one - other) > _SAME * scale:
        return "the text sees the image behind it: its loss depends on it"
    if abs(one - without) > _CLOSE.get(dtype, _CLOSE_IN_HALF) * scale:
        return f"an image behind the text changes its loss from {without:.6g} to {one:.6g}"
    return ""


@contextmanager
def _called(model: Any, paths: tuple[str, ...]) -> Iterator[list[str]]:
    """Those of ``paths`` that are called within the context."""
    found: list[str] = []
    named = [(plain(name), module) for name, module in model.named_modules()]
    hooks = [
        module.register_forward_pre_hook(lambda *_, path=path: found.append(path))
        for path, module in named
        if path in paths
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _text(processor: Any) -> dict[str, torch.Tensor]:
    """Two rows of text, each token with a label."""
    made = dict(processor(text=[_WORDS, _WORDS[::-1]], return_tensors="pt", padding=True))
    batch = {name: value for name, value in made.items() if isinstance(value, torch.Tensor)}
    return {**batch, "labels": batch["input_ids"].clone()}


def _other(block: dummy.Block) -> dummy.Block:
    """The same shapes with something to see."""
    generator = torch.Generator().manual_seed(0)
    seen = {
        name: value + torch.randn(value.shape, generator=generator).to(value)
        if value.is_floating_point()
        else value
        for name, value in block.visual.items()
    }
    return replace(block, visual=seen)


def _loss(model: Any, batch: Mapping[str, Any]) -> float:
    """Called with keywords, or with the batch where the model takes one argument."""
    try:
        loss = dry_run.loss_of(model, batch)
    except TypeError:
        loss = dry_run.loss_of(lambda **whole: model(whole), batch)
    if not isinstance(loss, torch.Tensor):
        raise TypeError("the model gives no loss")
    return float(loss)
