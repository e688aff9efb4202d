"""Programs around `transformers.Trainer`, each a small class that a script would have."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tools.ordinary import account, models, turns
from tools.ordinary.draws import Draw
from tools.ordinary.features import FEATURES, TUNINGS
from tools.ordinary.fixture import Scene, make_model

Trainer = transformers.Trainer


class OwnStep(Trainer):
    """A training step of its own, as MiniCPM-V's and VLM2Vec's trainers have."""

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        model.train()
        inputs = self._prepare_inputs(inputs)
        with self.compute_loss_context_manager():
            loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        if not self.model_accepts_loss_kwargs:
            loss = loss / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()


class OwnLoss(Trainer):
    """A loss from logits, over the number of tokens of the whole window."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False,
                     num_items_in_batch: Any = None) -> Any:  # fmt: skip
        labels = inputs["labels"]
        told = {key: value for key, value in inputs.items() if key != "labels"}
        outputs = model(**told)
        logits, wanted = outputs.logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten()
        total = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
        number = num_items_in_batch if num_items_in_batch is not None else (wanted >= 0).sum()
        loss = total / number
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss


class OwnOptimizer(Trainer):
    """Two groups of parameters, the towers slower, and plain SGD with momentum."""

    def create_optimizer(self, model: Any = None) -> Any:
        if self.optimizer is None:
            groups: dict[bool, list[Any]] = {True: [], False: []}
            for name, parameter in self.model.named_parameters():
                if parameter.requires_grad:
                    groups[models.is_tower(name)].append(parameter)
            told = [{"params": groups[True], "lr": 1e-3}, {"params": groups[False], "lr": 1e-2}]
            kept = [group for group in told if group["params"]]
            self.optimizer = torch.optim.SGD(kept, lr=1e-2, momentum=0.9)
        return self.optimizer


class Student(Trainer):
    """Trains ``self.student``; the model that the Trainer was given only teaches."""

    student: Any = None

    def create_optimizer(self, model: Any = None) -> Any:
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3)
        return self.optimizer

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False,
                     num_items_in_batch: Any = None) -> Any:  # fmt: skip
        with torch.no_grad():
            taught = model(**inputs).logits
        outputs = self.student(**inputs)
        distance = torch.nn.functional.mse_loss(outputs.logits, taught)
        loss = (outputs.loss + distance) / self.args.gradient_accumulation_steps
        return (loss, outputs) if return_outputs else loss


KINDS: dict[str, tuple[type, ...]] = {
    "Trainer": (), "own training_step": (OwnStep,), "own compute_loss": (OwnLoss,),
    "own optimizer": (OwnOptimizer,), "student": (Student,),
}  # fmt: skip


class _Ticks(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, clock: turns.Clock) -> None:
        self.clock = clock

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.clock.tick()


def work(draw: Draw, folder: str) -> dict[str, Any]:
    """Train as drawn; what the run came to."""
    transformers.set_seed(1)
    scene = Scene(draw, folder, list(KINDS[draw.program]), model=make_model(draw))
    if draw.program == "student":
        student = models.make(draw)
        with torch.no_grad():
            for parameter in student.parameters():
                parameter.mul_(0.9)
        scene.bases = [type("Taught", (Student,), {"student": student})]
    for prepare in (TUNINGS.get(draw.tuning), *(FEATURES[each] for each in draw.features)):
        if prepare is not None:
            prepare(scene)
    clock = turns.clock()
    if clock is not None:
        scene.callbacks.append(_Ticks(clock))
    trainer = scene.drive(scene.trainer)
    found = account.of_run(
        {"model": trainer.model} | ({"student": student} if draw.program == "student" else {}),
        [trainer.optimizer], trainer.state.log_history, scene.told,
    )  # fmt: skip
    weak = account.weakly(trainer, trainer.model, trainer.optimizer)
    found |= clock.end() if clock else {}
    trainer = student = None
    scene.__dict__.clear()
    return found | account.left(weak)
