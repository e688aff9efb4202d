"""A user's script that combines what Trainers can do, in two ranks; prints what it trained to.

    torchrun --nproc_per_node 2 lifecycle.py epochs|resumed|compiled|callback|worker|killed FOLDER

epochs: three epochs with accumulation, evaluation on mixed rows, checkpoints, the best one loaded
at the end; resumed: the same, stopped in the middle and gone on with; compiled: under
torch.compile; callback, worker, killed: one that raises, a dataloader worker and a rank that die.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.kit import vlms

WHAT, FOLDER = sys.argv[1], Path(sys.argv[2])
RANK = int(os.environ["RANK"])
FAMILY = vlms.FAMILIES["qwen2_vl"]


class Rows(torch.utils.data.Dataset):
    """Encoded rows, made when they are asked for. "mixed": every second one holds an image."""

    def __init__(self, kind: str, count: int, seed: int) -> None:
        self.kind, self.count, self.seed = kind, count, seed
        self.model = FAMILY.model()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        if WHAT == "worker" and number > 3 and torch.utils.data.get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        image = self.kind == "image" or number % 2 == 0
        return vlms.row(FAMILY, self.model, self.seed + number, image)


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.cat([row[name] for row in rows if name in row])
            for name in {name: None for row in rows for name in row}}  # fmt: skip


class Raises(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise ZeroDivisionError("a callback of the user's")


class Killed(TrainerCallback):
    """As by the kernel, for its memory."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2 and RANK == 1:
            print("rank 1 is killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


class Ends(TrainerCallback):
    """As a job's time limit does, behind a checkpoint."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 4


def trainer(*callbacks: TrainerCallback) -> Trainer:
    torch.manual_seed(0)
    arguments = TrainingArguments(
        str(FOLDER / "out"), num_train_epochs=3, per_device_train_batch_size=1,
        per_device_eval_batch_size=1, gradient_accumulation_steps=2, use_cpu=True,
        ddp_backend="gloo", optim="adamw_torch", learning_rate=1e-3, max_grad_norm=1.0,
        report_to="none", disable_tqdm=True, logging_steps=1, seed=3, eval_strategy="steps",
        eval_steps=2, save_strategy="steps", save_steps=2, load_best_model_at_end=True,
        metric_for_best_model="loss", save_only_model=False, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False}, remove_unused_columns=False,
        ddp_find_unused_parameters=True, torch_compile=WHAT == "compiled",
        torch_compile_backend="aot_eager" if WHAT == "compiled" else None,
        dataloader_num_workers=1 if WHAT == "worker" else 0, dataloader_pin_memory=False,
    )  # fmt: skip
    return Trainer(
        FAMILY.model(), arguments, data_collator=collate, callbacks=list(callbacks),
        train_dataset=Rows("image", 12, 100), eval_dataset=Rows("mixed", 4, 900),
    )  # fmt: skip


def told(made: Trainer) -> None:
    digest = hashlib.sha256()
    for _, parameter in sorted(made.model.named_parameters()):
        digest.update(parameter.detach().numpy().tobytes())
    history = [
        {k: v for k, v in entry.items() if k in ("loss", "eval_loss", "epoch", "step")}
        for entry in made.state.log_history
    ]
    data = {"weights": digest.hexdigest(), "steps": made.state.global_step, "history": history}
    print(f"TRAINED rank {RANK} {json.dumps(data)}", flush=True)


if WHAT == "resumed":
    trainer(Ends()).train()
    made = trainer()
    made.train(resume_from_checkpoint=str(FOLDER / "out" / "checkpoint-4"))
else:
    made = trainer(*{"callback": [Raises()], "killed": [Killed()]}.get(WHAT, []))
    made.train()
told(made)
