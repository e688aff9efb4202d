"""What happens in a drawn run besides its steps, one small function each: it changes the scene."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import transformers

from tools.matrix import families
from tools.ordinary import models, rows
from tools.ordinary.draws import REENTRANT
from tools.ordinary.fixture import Scene

FEATURES: dict[str, Callable[[Scene], None]] = {}
TUNINGS: dict[str, Callable[[Scene], None]] = {}
Callback = transformers.TrainerCallback


def feature(name: str) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Register the function under the name of its feature."""

    def registered(prepare: Callable[[Scene], None]) -> Callable[[Scene], None]:
        FEATURES[name] = prepare
        return prepare

    return registered


class Staged(Callback):  # type: ignore[misc]
    """The towers alone for a third of the steps, then everything."""

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        models.freeze(model, sees=False, train=state.global_step >= state.max_steps // 3)


class Alternating(Callback):  # type: ignore[misc]
    """Towers and language model by turns."""

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        models.freeze(model, sees=True, train=state.global_step % 2 == 0)
        models.freeze(model, sees=False, train=state.global_step % 2 == 1)


TUNINGS["staged"] = lambda scene: scene.callbacks.append(Staged())
TUNINGS["alternating"] = lambda scene: scene.callbacks.append(Alternating())


@feature("evaluation")
def evaluation(scene: Scene) -> None:
    scene.options |= {"eval_strategy": "steps", "eval_steps": 5}


@feature("generation")
def generation(scene: Scene) -> None:
    """After every fifth step, from a row with an image and from one of text."""
    told = scene.told.setdefault("tokens", [])

    class Generates(Callback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
            if state.global_step % 5 == 0:
                told.append(generated(scene.draw, model))

    scene.callbacks.append(Generates())


def generated(draw: Any, model: Any) -> list[list[int]]:
    """New tokens behind a row each, greedily; the model is left as it was."""
    collate = rows.Collate(families.of(draw.model), model)
    kinds = ("image",) if draw.strategy.startswith("zero") else ("image", "text")
    was, found = model.training, []
    model.eval()
    for number, kind in enumerate(kinds):
        asked = collate([(2000 + number, kind)])
        asked.pop("labels")
        together = draw.strategy in ("zero3", "fsdp2")
        with torch.no_grad():
            out = model.generate(**asked, max_new_tokens=3, do_sample=False, synced_gpus=together)
        found.append([int(token) for token in out[0, -3:]])
    model.train(was)
    return found


@feature("save and resume")
def resume(scene: Scene) -> None:
    """Half of it, then another trainer goes on from the checkpoint."""
    half = scene.draw.steps // 2
    scene.options |= {"save_strategy": "steps", "save_steps": half}

    def drive(make: Any) -> Any:
        first = make()
        first.add_callback(_Ends(half))
        first.train()
        first = None
        second = make()
        second.train(resume_from_checkpoint=f"{scene.folder}/checkpoint-{half}")
        return second

    scene.drive = drive


class _Ends(Callback):  # type: ignore[misc]
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self.step


@feature("load best")
def load_best(scene: Scene) -> None:
    scene.options |= {"eval_strategy": "steps", "eval_steps": 6, "save_strategy": "steps",
                      "save_steps": 6, "load_best_model_at_end": True,
                      "metric_for_best_model": "loss"}  # fmt: skip


@feature("two trainings")
def twice(scene: Scene) -> None:
    """The same trainer trains again, on what it has."""

    def drive(make: Any) -> Any:
        trainer = make()
        trainer.train()
        trainer.train()
        return trainer

    scene.drive = drive


@feature("interrupted")
def interrupted(scene: Scene) -> None:
    """Ctrl-C in the middle of a window or between two; the model is saved; it trains again."""
    calls = [0]
    at = scene.draw.steps * scene.draw.accumulation // 2 + 1

    class Interrupts(Callback):  # type: ignore[misc]
        def _count(self) -> None:
            calls[0] += 1
            if calls[0] == at:
                raise KeyboardInterrupt

        def on_substep_end(self, *_: Any, **__: Any) -> None:
            self._count()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self._count()

    def drive(make: Any) -> Any:
        trainer = make()
        try:
            trainer.train()
        except KeyboardInterrupt:
            trainer.save_model()
        trainer.train()
        return trainer

    scene.callbacks.append(Interrupts())
    scene.drive = drive


@feature("compile")
def compiled(scene: Scene) -> None:
    """Frames and graph breaks have to be as without us."""
    import torch._dynamo

    scene.options |= {"torch_compile": True, "torch_compile_backend": "eager"}
    scene.told["frames"] = torch._dynamo.utils.counters["frames"]
    scene.told["graph breaks"] = torch._dynamo.utils.counters["graph_break"]


@feature("early stop")
def early(scene: Scene) -> None:
    evaluation(scene)
    scene.options |= {"save_strategy": "steps", "save_steps": 5, "metric_for_best_model": "loss",
                      "load_best_model_at_end": True}  # fmt: skip
    scene.callbacks.append(transformers.EarlyStoppingCallback(1))


@feature("model_init")
def model_init(scene: Scene) -> None:
    """The Trainer makes its model itself, and anew in ``train``."""
    scene.named["model_init"] = scene.model


@feature("modality dropout")
def modality_dropout(scene: Scene) -> None:
    """In the model's forward: see models.py."""


@feature("dummy pixels")
def dummy_pixels(scene: Scene) -> None:
    """In rows and in the model's forward: see models.py."""


@feature("workers")
def workers(scene: Scene) -> None:
    scene.options["dataloader_num_workers"] = 1


@feature("SAM")
def sam(scene: Scene) -> None:
    """Two backwards a step: the gradient is taken where the first one leads."""

    class Sam(transformers.Trainer):  # type: ignore[misc]
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            loss = super().training_step(model, inputs, num_items_in_batch)
            moved = _climb(model)
            model.zero_grad()
            super().training_step(model, inputs, num_items_in_batch)
            _back(moved)
            return loss

    scene.bases.insert(0, Sam)


def _climb(model: Any, by: float = 1e-3) -> list[tuple[Any, Any]]:
    moved = [(p, p.grad * by) for p in model.parameters() if p.grad is not None]
    with torch.no_grad():
        for parameter, change in moved:
            parameter.add_(change)
    return moved


def _back(moved: list[tuple[Any, Any]]) -> None:
    with torch.no_grad():
        for parameter, change in moved:
            parameter.sub_(change)


@feature("dropped gradients")
def dropped(scene: Scene) -> None:
    """Some steps are skipped, as a gradient scaler or a filter of bad batches does."""
    chance = random.Random(5)

    class Drops(Callback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any,
                                  **_: Any) -> None:  # fmt: skip
            if chance.random() < 0.3:
                for parameter in model.parameters():
                    parameter.grad = None

    scene.callbacks.append(Drops())


@feature("gradients given back")
def given_back(scene: Scene) -> None:
    """Taken at each micro-batch and kept elsewhere, given back before the step."""
    kept: dict[int, Any] = {}

    def take(model: Any) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                before = kept.get(id(parameter))
                kept[id(parameter)] = parameter.grad if before is None else before + parameter.grad
                parameter.grad = None

    class Takes(Callback):  # type: ignore[misc]
        def on_substep_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
            take(model)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any,
                                  **_: Any) -> None:  # fmt: skip
            take(model)
            for parameter in model.parameters():
                parameter.grad = kept.pop(id(parameter), None)

    scene.callbacks.append(Takes())


@feature("text replay")
def replay(scene: Scene) -> None:
    """Beside each batch one of text, so that nothing is forgotten."""

    class Replays(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False,
                         num_items_in_batch: Any = None) -> Any:  # fmt: skip
            told = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            if not model.training:
                return told
            number = 3000 + self.state.global_step
            text = self._prepare_inputs(self.data_collator([(number, "text")]))
            again = super().compute_loss(model, text, False, num_items_in_batch)
            return (told[0] + again, told[1]) if return_outputs else told + again

    scene.bases.insert(0, Replays)


@feature("skipped batch")
def skipped(scene: Scene) -> None:
    """A loss of the user's own leaves a batch out: nothing runs forward, nothing comes back."""
    chance = random.Random(11)

    class Skips(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False,
                         num_items_in_batch: Any = None) -> Any:  # fmt: skip
            if not model.training or chance.random() > 0.25:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            return torch.zeros((), requires_grad=True)

    scene.bases.insert(0, Skips)


@feature("own collator")
def own_collator(scene: Scene) -> None:
    """It goes on from what it holds: a counter, a list and a generator decide about its batches."""

    class Own(rows.Collate):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.calls, self.lengths, self.noise = 0, [0], torch.Generator().manual_seed(5)

        def __call__(self, samples: Any) -> dict[str, torch.Tensor]:
            made = super().__call__(samples)
            self.calls += 1
            self.lengths.append(self.calls % 5)
            made["labels"][:, : -2 - self.lengths[-1]] = -100
            for name in (n for n, value in made.items() if value.is_floating_point()):
                made[name] += torch.randn(made[name].shape, generator=self.noise) / 10
            return made

    scene.collate = Own


@feature(REENTRANT)
def reentrant(scene: Scene) -> None:
    """See models.py."""
