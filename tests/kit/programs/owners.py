"""Trainings of one process whose model, trainer or accelerator is not the plain one: each prints
what it trained to, what it left on the model, and how many models stayed in memory.

    python owners.py FOLDER [SCENE …]

One line a scene, the same with the guard on and off but for what rules hear.
"""

from __future__ import annotations

import collections
import copy
import gc
import hashlib
import importlib.machinery
import io
import json
import os
import pickle
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from accelerate import Accelerator
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.kit import vlms

for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
    os.environ.pop(name, None)  # one process, no rank of many

FOLDER = sys.argv[1]
FAMILY = vlms.FAMILIES["llava"]
SCENES: dict[str, Callable[[], Any]] = {}
_PLAIN = FAMILY.model()
ROWS = [vlms.row(FAMILY, _PLAIN, 100 + n, image=n % 4 != 3) for n in range(24)]
WORDS = [{"input_ids": torch.arange(8) + n, "labels": torch.arange(8) + n} for n in range(24)]
STEPS = 12


def scene(function: Callable[[], Any]) -> Callable[[], Any]:
    SCENES[function.__name__] = function
    return function


def vision() -> Any:
    return FAMILY.model()


def text() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                    num_attention_heads=2, num_key_value_heads=2)
    )  # fmt: skip


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.cat([row[name] for row in rows if name in row]) for name in rows[0]}


def weights(model: Any) -> str:
    digest = hashlib.sha256()
    for _, parameter in sorted(model.named_parameters()):
        digest.update(parameter.detach().float().numpy().tobytes())
    return digest.hexdigest()[:16]


_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")


def hooks(model: Any) -> int:
    """Ours, on its modules and parameters."""
    found = [each for module in model.modules() for name in _HOOKS
             for each in getattr(module, name).values()]  # fmt: skip
    found += [each for parameter in model.parameters() for name in
              ("_backward_hooks", "_post_accumulate_grad_hooks")
              for each in (getattr(parameter, name, None) or {}).values()]  # fmt: skip
    return sum("vlmguard" in (getattr(each, "__module__", "") or "") for each in found)


def trainer(kind: type[Trainer] = Trainer, model: Any = None, **more: Any) -> Trainer:
    torch.manual_seed(0)
    callbacks, data = more.pop("callbacks", None), more.pop("rows", ROWS)
    options = {
        "max_steps": STEPS, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2,
        "use_cpu": True, "learning_rate": 1e-2, "report_to": "none", "disable_tqdm": True,
        "save_strategy": "no", "logging_strategy": "no", "remove_unused_columns": False,
        "per_device_eval_batch_size": 1, "seed": 3,
    } | more.pop("options", {})  # fmt: skip
    given = {"model_init": model} if callable(model) and not hasattr(model, "forward") else {
        "model": vision() if model is None else model
    }  # fmt: skip
    return kind(
        args=TrainingArguments(FOLDER, **options), train_dataset=data, eval_dataset=data[:3],
        data_collator=collate if data is ROWS else None, callbacks=callbacks, **given,
    )  # fmt: skip


def done(made: Trainer) -> dict[str, Any]:
    made.train()
    return {"weights": weights(made.model), "hooks": hooks(made.model)}


# The model is made inside train


@scene
def model_init() -> Any:
    return done(trainer(model=vision))


@scene
def model_init_of_text() -> Any:
    return done(trainer(model=text, rows=WORDS))


@scene
def searched() -> Any:
    """`hyperparameter_search` on a backend of one's own: two trials, evaluated."""
    from transformers import hyperparameter_search as search
    from transformers.trainer_utils import BestRun

    class Trial:
        def __init__(self, number: int) -> None:
            self.number, self.params = number, {"learning_rate": (1e-2, 3e-2)[number]}

        def suggest_float(self, name: str, low: float, high: float, log: bool = False) -> float:
            return self.params[name]

        def report(self, *_: Any) -> None:
            pass

        def should_prune(self) -> bool:
            return False

        def set_user_attr(self, *_: Any) -> None:
            pass

    seen = []

    class Backend(search.OptunaBackend):
        def ensure_available(self) -> None:
            pass

        def run(self, made: Any, n_trials: int, direction: Any, **_: Any) -> BestRun:
            for number in range(n_trials):
                made.objective = None
                made.train(trial=Trial(number))
                made.evaluate()
                seen.append(weights(made.model))
            return BestRun("0", 0.0, {})

    backends = search.ALL_HYPERPARAMETER_SEARCH_BACKENDS
    before = dict(backends)
    stub = sys.modules.setdefault("optuna", type(sys)("optuna"))
    stub.__spec__ = importlib.machinery.ModuleSpec("optuna", None)
    stub.Trial, stub.trial = Trial, types.SimpleNamespace(BaseTrial=Trial)
    backends[next(iter(backends))] = Backend
    try:
        made = trainer(model=lambda trial=None: vision())
        made.hyperparameter_search(
            hp_space=lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 0, 1)},
            n_trials=2, backend="optuna",
        )  # fmt: skip
    finally:
        backends.update(before)
        sys.modules.pop("optuna", None)
    return {"weights": seen, "hooks": hooks(made.model)}


# A step of one's own


class OwnStep(Trainer):
    """As MiniCPM-V's and VLM2Vec's trainers: nothing of the Trainer's own is called."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        loss = self.compute_loss(model, inputs) / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()


class Longer(Trainer):
    """Calls what it inherits, and clears up a gradient after it."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.seen = getattr(self, "seen", 0) + 1
        return loss


@scene
def own_step() -> Any:
    return done(trainer(OwnStep))


@scene
def longer_step() -> Any:
    return done(trainer(Longer))


def without_gradient() -> Any:
    """The aligner's forward is decorated with no_grad: no gradient comes to it in any step."""
    model = vision()
    found = next(m for n, m in model.named_modules() if n.endswith("multi_modal_projector"))
    found.forward = torch.no_grad()(found.forward)
    return model


def stopped(made: Trainer) -> Any:
    try:
        return done(made)
    except RuntimeError as error:
        return {"stopped": str(error)[:200], "hooks": hooks(made.model)}


@scene
def own_step_broken() -> Any:
    return stopped(trainer(OwnStep, without_gradient(), rows=ROWS))


@scene
def model_init_broken() -> Any:
    return stopped(trainer(model=without_gradient, rows=ROWS))


class OwnAccelerator(Trainer):
    """As LLaVA-NeXT's."""

    def create_accelerator_and_postprocess(self):
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        self.gather_function = self.accelerator.gather_for_metrics
        self.is_deepspeed_enabled = self.is_fsdp_enabled = False
        self.is_tp_enabled = False


@scene
def own_accelerator() -> Any:
    return done(trainer(OwnAccelerator))


class ReplacesParameters(TrainerCallback):
    """Gives the tower new parameters, and the optimizer with them, when training begins."""

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        new = {}
        for name, module in model.named_modules():
            if "vision" in name:
                for own, old in list(module.named_parameters(recurse=False)):
                    new[id(old)] = torch.nn.Parameter(old.detach().clone())
                    setattr(module, own, new[id(old)])
        for group in optimizer.param_groups:
            group["params"] = [new.get(id(old), old) for old in group["params"]]


@scene
def replaced_parameters() -> Any:
    return done(trainer(callbacks=[ReplacesParameters()]))


class ReplacesModel(TrainerCallback):
    """Puts another model, with an optimizer of its own, in the place of the trainer's."""

    trainer: Any
    make = staticmethod(vision)

    def on_train_begin(self, args, state, control, **kwargs):
        self.trainer.model = self.make()
        made = torch.optim.SGD(self.trainer.model.parameters(), lr=1e-2)
        self.trainer.optimizer = self.trainer.accelerator.prepare(made)


class OfItself(Trainer):
    """Trains what it has by then, and not what it began with."""

    def compute_loss(self, model, inputs, *args, **kwargs):
        return super().compute_loss(self.model, inputs, *args, **kwargs)


@scene
def replaced_model() -> Any:
    callback = ReplacesModel()
    made = callback.trainer = trainer(OfItself, callbacks=[callback])
    return {**done(made), "hooks of the first": hooks(made.model_wrapped)}


@scene
def replaced_model_broken() -> Any:
    callback = ReplacesModel()
    callback.make = without_gradient
    made = callback.trainer = trainer(OfItself, callbacks=[callback], rows=ROWS)
    return stopped(made)


# A second life


class Interrupts(TrainerCallback):
    def on_substep_end(self, args, state, control, **kwargs):
        if state.global_step == 4:
            raise KeyboardInterrupt


@scene
def interrupted() -> Any:
    made = trainer(callbacks=[Interrupts()])
    try:
        made.train()
    except KeyboardInterrupt:
        left = hooks(made.model)
    made.remove_callback(Interrupts)
    return {**done(made), "left": left}


class Ends(TrainerCallback):
    """As a scheduler does: SIGTERM while a step runs, then a save and the end."""

    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGTERM, self.hear)

    def hear(self, *_):
        self.asked = True

    def on_substep_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_step_end(self, args, state, control, **kwargs):
        if self.asked:
            control.should_save = control.should_training_stop = True


@scene
def terminated() -> Any:
    found = done(trainer(callbacks=[Ends()]))
    saved = sorted(Path(FOLDER, "checkpoint-4").glob("*.safetensors"))
    content = [hashlib.sha256(file.read_bytes()).hexdigest() for file in saved]
    return {**found, "saved": content}


class Retries(Trainer):
    """A step that runs out of memory in forward or in backward is made again."""

    calls = 0

    def training_step(self, *args, **kwargs):
        for _ in range(2):
            try:
                return super().training_step(*args, **kwargs)
            except torch.OutOfMemoryError:
                self.model.zero_grad()
        raise AssertionError

    def compute_loss(self, *args, **kwargs):
        self.calls += 1
        loss = super().compute_loss(*args, **kwargs)
        if self.calls in (3, 8):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if self.calls in (6, 11):
            loss.register_hook(self.full)
        return loss

    def full(self, gradient):
        raise torch.OutOfMemoryError("CUDA out of memory.")


@scene
def out_of_memory() -> Any:
    return done(trainer(Retries))


class Smaller(Trainer):
    def training_step(self, model, inputs, *args):
        if len(inputs["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().training_step(model, inputs, *args)


@scene
def smaller_batch() -> Any:
    options = {"auto_find_batch_size": True, "per_device_train_batch_size": 4}
    made = trainer(Smaller, options=options)
    return {**done(made), "batch": made._train_batch_size}


class Nested(TrainerCallback):
    """A second training in a step of the first, of another model."""

    told = None

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            self.told = done(trainer())


@scene
def nested() -> Any:
    inner = Nested()
    found = done(trainer(callbacks=[inner]))
    assert inner.told is not None
    return {**found, "inner": inner.told}


@scene
def twice() -> Any:
    made = trainer()
    return [done(made), done(made)]


class Copies(TrainerCallback):
    """Copies, pickles and saves what trains while it is watched, and runs the copies."""

    def __init__(self):
        self.told = []

    def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.global_step not in (1, 2, 5):
            return
        made, said = [copy.deepcopy(model)], "pickled"
        try:
            pickled = io.BytesIO()
            torch.save(model, pickled)
            pickled.seek(0)
            made.append(torch.load(pickled, weights_only=False))
        except AttributeError as error:  # transformers 5 leaves hooks of its own that cannot be
            said = str(error)
        batch = collate([ROWS[0]])
        with torch.no_grad():
            losses = [float(each(**batch).loss) for each in made]
        for each in made:
            each(**batch).loss.backward()
        kept = pickle.loads(pickle.dumps(optimizer.state_dict()))
        same = [weights(each) == weights(model) for each in made]
        keys = [sorted(model.state_dict()), sorted(kept), len(kept["state"])]
        self.told.append([said, losses, keys, same])


@scene
def copied() -> Any:
    callback = Copies()
    return {**done(trainer(callbacks=[callback])), "told": callback.told}


@scene
def freed() -> Any:
    """Trainers that are forgotten leave nothing in memory."""
    found = []
    for _ in range(3):
        made = trainer(options={"max_steps": 2})
        made.train()
        found += [weakref.ref(made), weakref.ref(made.model)]
        del made
    gc.collect()
    return {"alive": sum(each() is not None for each in found)}


# Loops


def looped(accelerator: Any, steps: int = STEPS, model: Any = None, step: Any = None) -> Any:
    model = model or vision()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    loader = torch.utils.data.DataLoader(ROWS, batch_size=1, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _, batch in zip(range(steps), loader, strict=False):
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
        if step is not None:
            step()
    return accelerator.unwrap_model(model)


@scene
def loops_freed() -> Any:
    found, alive = [], []
    for how in ("nothing", "free_memory", "end_training"):
        accelerator = Accelerator(cpu=True)
        model = looped(accelerator, 3)
        found.append(weakref.ref(model))
        if how != "nothing":
            getattr(accelerator, how)()
        del accelerator, model
        alive.append(found[-1]() is not None)
    gc.collect()
    return {"alive": sum(each() is not None for each in found), "without a collection": alive}


@scene
def loop_let_go() -> Any:
    """The accelerator is gone, its model is used on."""
    accelerator = Accelerator(cpu=True)
    model = looped(accelerator, 3)
    del accelerator
    gc.collect()
    return {"hooks": hooks(model), "weights": weights(model)}


@scene
def loop_prepared_again() -> Any:
    """One model through two accelerators, and through one twice."""
    accelerator, counts = Accelerator(cpu=True), []
    model = looped(accelerator, 3, step=lambda: None)
    counts.append(hooks(model))
    accelerator.free_memory()
    counts.append(hooks(model))
    model = looped(accelerator, 3, model)
    counts.append(hooks(model))
    model = looped(accelerator, 3, model)
    counts.append(hooks(model))
    model = looped(Accelerator(cpu=True), 3, model)
    counts.append(hooks(model))
    return {"weights": weights(model), "counts": counts}


@scene
def threads() -> Any:
    """Two loops in two threads, step by step."""
    both, found = threading.Barrier(2), {}

    def work(name: str) -> None:
        torch.manual_seed(0)
        found[name] = weights(looped(Accelerator(cpu=True), 6, models[name], both.wait))

    models = {"one": vision(), "two": vision()}
    models["two"].requires_grad_(False)
    for name, parameter in models["two"].named_parameters():
        parameter.requires_grad_("language_model" in name)
    every = [threading.Thread(target=work, args=(name,)) for name in models]
    for each in every:
        each.start()
    for each in every:
        each.join()
    return dict(sorted(found.items()))


@scene
def two_accelerators() -> Any:
    """A student that trains as a whole beside one of which a part trains, by turns."""
    models = [vision(), vision()]
    for name, parameter in models[1].named_parameters():
        parameter.requires_grad_("language_model" in name)
    made = [Accelerator(cpu=True), Accelerator(cpu=True)]
    ready = [
        a.prepare(m, torch.optim.SGD([p for p in m.parameters() if p.requires_grad], 1e-2))
        for a, m in zip(made, models, strict=True)
    ]
    for batch in ROWS[:STEPS]:
        for accelerator, (model, optimizer) in zip(made, ready, strict=True):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
    return [weights(model) for model in models]


def _loss(model: Any, batch: dict[str, Any]) -> Any:
    return model(**batch).loss


@scene
def two_models() -> Any:
    """An actor and a critic of one accelerator, each with its optimizer: the critic steps first,
    and every second batch trains the critic alone."""
    accelerator = Accelerator(cpu=True)
    actor, critic = vision(), vision()
    optimizers = [torch.optim.SGD(each.parameters(), 1e-2) for each in (actor, critic)]
    actor, critic, *optimizers = accelerator.prepare(actor, critic, *optimizers)
    for number, batch in enumerate(ROWS[:STEPS]):
        for model, optimizer in ((critic, optimizers[1]), (actor, optimizers[0])):
            if model is critic or number % 2:
                accelerator.backward(_loss(model, batch))
                optimizer.step()
                optimizer.zero_grad()
    return [weights(each) for each in (actor, critic)]


@scene
def two_optimizers() -> Any:
    """The tower's and the language model's, by turns."""
    accelerator, model = Accelerator(cpu=True), vision()
    parts = {True: [], False: []}
    for name, parameter in model.named_parameters():
        parts["vision" in name].append(parameter)
    optimizers = [torch.optim.SGD(part, 1e-2) for part in parts.values()]
    model, *optimizers = accelerator.prepare(model, *optimizers)
    for number, batch in enumerate(ROWS[:STEPS]):
        accelerator.backward(_loss(model, batch))
        optimizers[number % 2].step()
        model.zero_grad()
    return weights(model)


# What rules hear


class Heard:
    """A rule of a third party, which notes each batch."""

    CODE, NAME, DEFAULT, PHASES = "ZZ901", "heard", "warn", ("train", "eval", "generate")
    FOUND: ClassVar[list[Any]] = []

    @staticmethod
    def told() -> dict[str, int]:
        """Number of batches by phase, kinds and number of tokens; empties the list."""
        found, Heard.FOUND[:] = list(Heard.FOUND), []
        words = (f"{b.phase} {'+'.join(b.kinds)} {b.shapes.get('input_ids')}" for b in found)
        return dict(sorted(collections.Counter(words).items()))


def hearing() -> Callable[[], dict[str, int]]:
    if os.environ.get("VLMGUARD") != "off":
        import vlmguard
        from vlmguard import registry

        def pre_step(run, batch, gradients):
            if batch is not None:
                Heard.FOUND.append(batch)

        Heard.pre_step = staticmethod(vlmguard.hookimpl(pre_step))
        registry.get().add(Heard)
    Heard.told()
    return Heard.told


@scene
def heard_in_trainers() -> Any:
    told, found = hearing(), []
    options = {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 3}
    for kind in (Trainer, OwnStep, Longer):
        made = trainer(kind, options=options)
        made.train()
        found.append((weights(made.model), told()))
        made.evaluate()
        made.predict(ROWS[:2])
        found.append(told())
    return found


@scene
def judged() -> Any:
    """How often a rule of a third party is asked of a training, and what that trained to."""
    asked: list[str] = []
    if os.environ.get("VLMGUARD") != "off":
        import vlmguard
        from vlmguard import registry

        def pre_wrap(run):
            asked.append(run.phase)

        about = {"CODE": "ZZ902", "NAME": "asked", "DEFAULT": "warn", "__name__": __name__}
        registry.get().add(types.SimpleNamespace(**about, pre_wrap=vlmguard.hookimpl(pre_wrap)))
    found = []
    for kind in (Trainer, OwnAccelerator, OwnStep):
        made = trainer(kind)
        made.train()
        found.append([weights(made.model), [*asked]])
        asked.clear()
    return found


@scene
def heard_in_a_loop() -> Any:
    """Batches that go through two forwards are heard once, generated tokens not at all."""
    told = hearing()
    accelerator, model = Accelerator(cpu=True), vision()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    for batch in ROWS[:3]:
        (model(**batch).loss + model(**batch).loss).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for batch in ROWS[:2]:
            model(**batch)
        inputs = {name: ROWS[0][name] for name in ("input_ids", "attention_mask", "pixel_values")}
        model.generate(**inputs, max_new_tokens=4, do_sample=False)
    return [weights(model), told()]


for wanted in sys.argv[2:] or list(SCENES):
    torch.manual_seed(0)
    try:
        told = SCENES[wanted]()
    except BaseException as error:
        told = {"raised": f"{type(error).__name__}: {str(error)[:300]}"}
    print(f"SCENE {wanted} {json.dumps(told)}", flush=True)
