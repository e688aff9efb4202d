"""One rank of a case, as a user's own script around Trainer and peft would be.

Both ranks are on device 0 and talk over gloo. They are forked by `ranks.py`, which has imported all
of this and has not touched the device.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import model as models
import peft
import torch
import transformers

import vlmguard.auto  # noqa: F401  (for a Python whose site-packages are not ours)


class Mixed(torch.utils.data.Dataset):
    """Row ``i`` goes to rank ``i % 2``; with ``mixed``, rank 1's have no image."""

    def __init__(self, like: Any, mixed: bool) -> None:
        self.rows = [models.row("tiny", n, not (mixed and n % 2), like) for n in range(8)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return self.rows[number]


class TwoForwards(transformers.Trainer):
    """A consistency term, as an embedder's loss over query and passage: two forwards, one loss."""

    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> torch.Tensor:
        return model(**inputs).loss + 0.5 * model(**inputs).loss


class InOrder(transformers.Trainer):
    """Rows are not shuffled, whatever the release."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def adapted(model: Any) -> Any:
    """LoRA on every linear layer but the head."""
    names = [
        name
        for name, each in model.named_modules()
        if isinstance(each, torch.nn.Linear) and "lm_head" not in name
    ]
    adapters = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules=names))
    adapters.enable_input_require_grads()
    return adapters


def main(case: str, device: str) -> None:
    model = models.make("tiny", device)
    data = Mixed(model, case == "mixed")
    if case == "lora":
        model = adapted(model)
    reentrant = None if case == "mixed" else {"use_reentrant": True}
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="vlmguard-gpu-"), max_steps=3, per_device_train_batch_size=1,
        use_cpu=device == "cpu", ddp_backend="gloo", optim="sgd", learning_rate=0.1,
        max_grad_norm=0, lr_scheduler_type="constant", report_to="none", save_strategy="no",
        logging_steps=1, disable_tqdm=True, remove_unused_columns=False,
        dataloader_pin_memory=False, gradient_checkpointing=True,
        gradient_checkpointing_kwargs=reentrant,
    )  # fmt: skip
    kind = TwoForwards if case == "two_forwards" else InOrder
    trainer = kind(model, arguments, train_dataset=data, data_collator=models.collate)
    trainer.train()
    moved = sum(float(p.detach().double().abs().sum()) for p in trainer.model.parameters())
    at = next(trainer.model.parameters()).device
    print(f"rank {os.environ['RANK']} trained on {at} to {moved:.10f}", flush=True)



def forked(case: str, device: str, variables: dict[str, str], log: Path) -> int:
    """A rank as a process of its own; its id. It prints into ``log`` and exits with 0 or 1."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.update(variables)
        main(case, device)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
