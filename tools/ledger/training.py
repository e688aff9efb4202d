"""Small real trainings in which anything can be put out of order: a plain loop under each strategy,
and transformers' Trainer."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from tools.ledger import rows, watching
from tools.matrix import families

Batch = dict[str, torch.Tensor]
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("Llama", {}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "dropout": ("Llama", {"attention_dropout": 0.2}),
    "softcap": ("Gemma2", {"final_logit_softcapping": 30.0}),
    "logit scale": ("Cohere", {"logit_scale": 0.25}),
    "granite": ("Granite", {"logits_scaling": 8.0}),
    "biased": ("Phi", {}),
    "experts": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
}
"""Language models alone: the class's first word and what its configuration has of its own."""


@dataclass
class Run:
    """One training; its parts are functions, so that one of them can be put out of order.

    Attributes:
        faulty: whether the error is put in.
        stage: 0, or 1 for the second process of a run that is resumed.
        numbers: which rows this rank learns in a micro-batch.
        image: whether a row has an image.
        alter: changes to a batch.
        prepared: changes to the model before an optimizer exists.
        wrapped: changes to the model and optimizer once they are wrapped.
        before, after: what happens before and after the optimizer's step.
        bases, options, callbacks: of a Trainer.
    """

    rank: int
    world: int
    folder: str
    faulty: bool = False
    stage: int = 0
    family: str = "qwen2_vl"
    program: str = "loop"
    strategy: str = "single"
    steps: int = 4
    rows: int = 2
    accumulation: int = 1
    rate: float = 1e-3
    clipping: float = 0.0
    autocast: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    ddp: dict[str, Any] = field(default_factory=dict)
    answers: tuple[int, int] = (2, 9)
    image: Callable[[int], bool] = lambda number: True
    numbers: Callable[[Run, int, int], list[int]] | None = None
    alter: list[Callable[[Batch], Batch]] = field(default_factory=list)
    prepared: list[Callable[[Any], Any]] = field(default_factory=list)
    optimizer: Callable[[Run, Any], Any] | None = None
    wrapped: list[Callable[[Any, Any], None]] = field(default_factory=list)
    loss: Callable[[Run, Any, Batch, int], Any] | None = None
    backward: Callable[[Run, Any], None] | None = None
    step: Callable[[Run, Any], None] | None = None
    before: list[Callable[[Any, Any], None]] = field(default_factory=list)
    after: list[Callable[[Any, Any], None]] = field(default_factory=list)
    clear: Callable[[Any], None] | None = None
    scheduler: Callable[[Any], Any] | None = None
    bases: list[type] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    callbacks: list[Any] = field(default_factory=list)
    drive: Callable[[Any], None] | None = None
    at: int = 0
    live: Any = None

    def batch(self, step: int, micro: int, rank: int | None = None) -> Batch:
        """What this rank learns from in a micro-batch."""
        rank = self.rank if rank is None else rank
        if self.numbers:
            numbers = self.numbers(self, step, micro)
        else:
            at = ((step * self.accumulation + micro) * self.world + rank) * self.rows
            numbers = list(range(at, at + self.rows))
        return self.collate(numbers)

    def collate(self, numbers: Sequence[int]) -> Batch:
        """Rows of these numbers, altered."""
        family = None if self.family in TEXTS else families.of(self.family)
        made = rows.batch(family, numbers, self.known, self.image, self.answers)
        for alter in self.alter:
            made = alter(made)
        return made

    known: frozenset[str] = frozenset()


def make(run: Run) -> Any:
    """The model, from one seed, in training mode."""
    model = text(run.family) if run.family in TEXTS else families.of(run.family).model()
    run.known = frozenset(inspect.signature(type(model).forward).parameters)
    for prepare in run.prepared:
        model = prepare(model) or model
    if run.strategy == "fsdp2" and run.program == "loop":
        from tools.ledger import strategies

        strategies.shard(model, **run.config)
    if run.strategy == "fsdp1" and run.program == "loop":
        from tools.ledger import strategies

        model = strategies.flat(model, **run.config)
    return model.train()


def text(name: str) -> Any:
    """A tiny language model."""
    from tests.kit.vlms import TEXT

    torch.manual_seed(0)
    kind, more = TEXTS[name]
    config = getattr(transformers, f"{kind}Config")(**{**TEXT, **more})
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and 0 < parameter.std() < 0.06:
                parameter.mul_(4)
    return model


def train(run: Run) -> dict[str, Any]:
    """Train; what it came to, the same in every process that repeats it."""
    torch.set_num_threads(1)
    transformers.set_seed(1)
    with _group(run):
        model = by_trainer(run) if run.program == "trainer" else by_loop(run)
        found = watching.end(model)
        run.live = None
    return found


@contextlib.contextmanager
def _group(run: Run) -> Any:
    if run.world > 1 and run.program == "loop":
        torch.distributed.init_process_group("gloo", rank=run.rank, world_size=run.world)
    try:
        yield
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
            torch.distributed.destroy_process_group()


def by_loop(run: Run) -> Any:
    """A script's own loop. Returns the model that was trained."""
    from tools.ledger import strategies

    model = make(run)
    optimizer = (run.optimizer or adam)(run, model)
    live = run.live = strategies.wrap(run, model, optimizer)
    for change in run.wrapped:
        change(live.model, live.optimizer)
    watching.start(run, live.model, live.optimizer)
    scheduler = run.scheduler(live.optimizer) if run.scheduler else None
    (run.drive or drive)(run)
    del scheduler
    return live.model


def drive(run: Run) -> None:
    """All steps."""
    for step in range(run.steps):
        run.at = step
        window(run, step)


def window(run: Run, step: int) -> None:
    """The micro-batches of one step, and the step."""
    total = targets(run, step)
    for micro in range(run.accumulation):
        batch = run.batch(step, micro)
        with (
            run.live.quiet(micro + 1 == run.accumulation),
            run.autocast() if run.autocast else contextlib.nullcontext(),
        ):
            loss = (run.loss or by_tokens)(run, run.live.model, batch, total)
        with run.live.quiet(micro + 1 == run.accumulation):
            run.live.backward(loss)
    run.live.step()


def targets(run: Run, step: int) -> int:
    """Targets of a window, over all ranks."""
    batches = [run.batch(step, m, r) for m in range(run.accumulation) for r in range(run.world)]
    return sum(int((each["labels"][:, 1:] >= 0).sum()) for each in batches)


def by_tokens(run: Run, model: Any, batch: Batch, total: int) -> Any:
    """Cross-entropy over the tokens of the whole window."""
    return summed(model, batch) * run.world / total


def by_means(run: Run, model: Any, batch: Batch, total: int) -> Any:
    """The mean over micro-batches and ranks of the mean over their tokens."""
    return model(**batch).loss / run.accumulation


def summed(model: Any, batch: Batch) -> Any:
    """The sum of the cross-entropies of next tokens."""
    logits = model(**{key: value for key, value in batch.items() if key != "labels"}).logits
    wanted = batch["labels"][:, 1:].flatten()
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), wanted, reduction="sum"
    )


def adam(run: Run, model: Any) -> Any:
    """AdamW on what trains."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=run.rate)


def by_trainer(run: Run) -> Any:
    """transformers' Trainer. Returns its model."""
    trainer = make_trainer(run)
    if run.drive:
        run.drive(trainer)
    else:
        trainer.train()
    return trainer.model


def make_trainer(run: Run) -> Any:
    """One of the user's class, if `bases` has some."""
    from tools.ledger import strategies

    model = make(run)
    options = {**_options(run), **strategies.of_trainer(run, model), **run.options}
    kind = type("Script", (*run.bases, transformers.Trainer), {})
    given = {"optimizers": (run.optimizer(run, model), None)} if run.optimizer else {}
    count = run.steps * run.accumulation * run.world * run.rows
    trainer = kind(
        model=model,
        args=transformers.TrainingArguments(**options),
        train_dataset=list(range(count)),
        data_collator=run.collate,
        callbacks=[*run.callbacks, watching.Watches(run)],
        processing_class=rows.tokenizer(),
        **given,
    )
    run.live = trainer
    return trainer


def _options(run: Run) -> dict[str, Any]:
    return {
        "output_dir": str(Path(run.folder) / "out"), "use_cpu": True, "optim": "adamw_torch",
        "learning_rate": run.rate, "lr_scheduler_type": "constant", "max_grad_norm": run.clipping,
        "per_device_train_batch_size": run.rows, "max_steps": run.steps,
        "gradient_accumulation_steps": run.accumulation, "train_sampling_strategy": "sequential",
        "remove_unused_columns": False, "report_to": "none", "save_strategy": "no",
        "logging_steps": 1, "disable_tqdm": True, "seed": 1, "dataloader_pin_memory": False,
    }  # fmt: skip
