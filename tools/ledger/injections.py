"""Silent errors in rows and in the loss."""

from __future__ import annotations

import functools
from typing import Any

import torch

from tests.kit.vlms import IMAGE
from tools.ledger import rows, training
from tools.ledger.catalogue import injection
from tools.ledger.training import Batch, Run


def deaf(model: Any) -> None:
    """A model class whose loss is a mean, whatever number of tokens is passed."""
    whole = type(model).forward

    @functools.wraps(whole)
    def forward(self: Any, *args: Any, num_items_in_batch: Any = None, **kwargs: Any) -> Any:
        return whole(self, *args, **kwargs)

    type(model).forward = forward


@injection(1, "VG622")
def careless_model(run: Run) -> None:
    """The model ignores num_items_in_batch, and the Trainer does not divide"""
    run.program, run.accumulation = "trainer", 4
    if run.faulty:
        run.prepared.append(deaf)


@injection(1, "VG621")
def mean_of_micro_batches(run: Run) -> None:
    """A loop averages the means of its micro-batches, whose target counts differ"""
    run.accumulation, run.rows = 4, 1
    if run.faulty:
        run.loss = training.by_means


@injection(2, "VG621", world=2)
def mean_of_ranks(run: Run) -> None:
    """DDP averages the means of two ranks, whose target counts differ"""
    run.strategy, run.rows = "ddp", 1
    if run.faulty:
        run.loss = training.by_means


def _alter(run: Run, change: Any) -> None:
    """In a Trainer, whose model gets the labels: in a loop with a loss of its own it does not."""
    run.program = "trainer"
    if run.faulty:
        run.alter.append(change)


@injection(17, "VG610")
def placeholders_as_targets(run: Run) -> None:
    """The collator makes image placeholders targets"""

    def change(batch: Batch) -> Batch:
        seen = batch["input_ids"] == IMAGE
        return batch | {"labels": torch.where(seen, batch["input_ids"], batch["labels"])}

    _alter(run, change)


@injection(18, "VG610", "VG620")
def shifted_twice(run: Run) -> None:
    """The collator shifts labels, and so does the model"""

    def change(batch: Batch) -> Batch:
        labels = batch["labels"].roll(-1, 1)
        labels[:, -1] = -100
        return batch | {"labels": labels}

    _alter(run, change)


@injection(18, "VG620")
def not_shifted(run: Run) -> None:
    """An own loss does not shift: the model learns to repeat each token"""

    def repeats(run: Run, model: Any, batch: Batch, total: int) -> Any:
        logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits.flatten(0, 1)
        wanted = batch["labels"].flatten()
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
        return loss * run.world / total

    if run.faulty:
        run.loss = repeats


@injection(19, "VG610")
def end_never_a_target(run: Run) -> None:
    """The collator masks the end of a sequence as if it was a pad"""
    _alter(run, lambda batch: batch | {
        "labels": batch["labels"].masked_fill(batch["input_ids"] == rows.END, -100)})  # fmt: skip


@injection(20, "VG610")
def two_begins(run: Run) -> None:
    """The template and the tokenizer both add the begin of a sequence"""

    def change(batch: Batch) -> Batch:
        fills = {"input_ids": rows.BEGIN, "attention_mask": 1, "labels": -100,
                 "mm_token_type_ids": 0}  # fmt: skip
        longer = {key: torch.cat([torch.full_like(batch[key][:, :1], fill), batch[key]], 1)
                  for key, fill in fills.items() if key in batch}  # fmt: skip
        return batch | longer

    _alter(run, change)


@injection(21, "VG610")
def rows_without_target(run: Run) -> None:
    """The template has no assistant mask: of every second row nothing is a target"""

    def change(batch: Batch) -> Batch:
        labels = batch["labels"].clone()
        labels[1::2] = -100
        return batch | {"labels": labels}

    _alter(run, change)


@injection(21)
def everything_a_target(run: Run) -> None:
    """The template has no assistant mask: questions are targets too"""

    def change(batch: Batch) -> Batch:
        ids = batch["input_ids"]
        odd = (ids == rows.PAD) | (ids == IMAGE)
        return batch | {"labels": ids.masked_fill(odd, -100)}

    _alter(run, change)


@injection(22, "VG610")
def truncated(run: Run) -> None:
    """Truncation cuts the answers of long rows"""
    run.rows = 4
    keys = ("input_ids", "attention_mask", "labels", "mm_token_type_ids")
    _alter(run, lambda batch: {k: v[:, :15] if k in keys else v for k, v in batch.items()})


@injection(23)
def packed(run: Run) -> None:
    """Two rows in one sequence, without positions or a mask that keep them apart"""
    run.family, run.rows = "text", 2

    def change(batch: Batch) -> Batch:
        there = batch["attention_mask"].bool()
        return {key: value[there][None] for key, value in batch.items()}

    _alter(run, change)


def _pixels(run: Run, change: Any) -> None:
    _alter(run, lambda batch: batch | {"pixel_values": change(batch["pixel_values"])})


@injection(26, "VG611")
def not_normalised(run: Run) -> None:
    """Pixels from 0 to 255"""
    _pixels(run, lambda pixels: (pixels.sigmoid() * 255).round())


@injection(26, "VG611")
def black(run: Run) -> None:
    """Every image is black"""
    _pixels(run, lambda pixels: torch.full_like(pixels, -1.8))


@injection(26, "VG611")
def all_equal(run: Run) -> None:
    """Every row gets the first row's image"""

    def change(pixels: torch.Tensor) -> torch.Tensor:
        first = pixels[: len(pixels) // run.rows]
        return first.repeat(run.rows, *[1] * (pixels.dim() - 1))

    _pixels(run, change)


@injection(28, "VG612", world=2)
def same_rows(run: Run) -> None:
    """Nobody divided the rows among the ranks"""
    run.strategy = "ddp"
    if run.faulty:
        run.numbers = lambda run, step, micro: list(range(step * run.rows, (step + 1) * run.rows))


@injection(29, "VG612", stages=2)
def replayed(run: Run) -> None:
    """A resume begins the epoch again (ignore_data_skip)"""
    run.program, run.steps = "trainer", 6
    run.options |= {"save_strategy": "steps", "save_steps": 3, "max_steps": 6 if run.stage else 3}
    if run.stage:
        run.options["ignore_data_skip"] = run.faulty
        run.drive = lambda trainer: trainer.train(resume_from_checkpoint=True)


@injection(0, "VG620")
def label_smoothing(run: Run) -> None:
    """label_smoothing_factor with a vision-language class: nobody shifts"""
    run.program = "trainer"
    if run.faulty:
        run.options["label_smoothing_factor"] = 0.1


@injection(0, "VG622")
def own_compute_loss(run: Run) -> None:
    """An own compute_loss ignores num_items_in_batch"""
    import transformers

    class Own(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False,
                         num_items_in_batch: Any = None) -> Any:  # fmt: skip
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    run.program, run.accumulation = "trainer", 4
    if run.faulty:
        run.bases.append(Own)
