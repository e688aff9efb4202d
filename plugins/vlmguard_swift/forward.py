"""One forward of ms-swift's, outside its training loop: for the dry step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vlmguard_transformers import dry_step

# What ``Seq2SeqTrainer.compute_loss`` takes out of a batch before forward.
_OF_THE_LOSS = ("compute_loss_func", "loss_scale", "text_position_ids", "channel")


def hindrance(trainer: Any) -> str:
    """Why a forward cannot be tried by one rank alone; "" if it can."""
    if getattr(trainer.template, "sequence_parallel_size", 1) > 1:
        return "sequence parallelism: a forward needs every rank"
    return ""


@contextmanager
def encoding(trainer: Any) -> Iterator[None]:
    """With the hook that turns a multimodal batch into embeddings, as ms-swift trains."""
    template = trainer.template
    if not getattr(getattr(trainer, "model_meta", None), "is_multimodal", False):
        yield
        return
    template.register_post_encode_hook([trainer.accelerator.unwrap_model(trainer.model)])
    try:
        yield
    finally:
        template.remove_post_encode_hook()


def loss(model: Any, batch: Mapping[str, Any]) -> Any:
    """The model's own loss; a loss scale or another loss function plays no part."""
    return dry_step.loss_of(model, {k: v for k, v in batch.items() if k not in _OF_THE_LOSS})
