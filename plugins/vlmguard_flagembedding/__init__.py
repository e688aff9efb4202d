"""The FlagEmbedding adapter (1.3 – 1.4: all seven modules that train).

What is patched and why:

* the command line, so that ``--vlmguard`` flags are ours: FlagEmbedding rejects unknown ones;
* ``Trainer.train`` of transformers, for FlagEmbedding's trainers alone: they inherit it, and its
  runners override the ``run`` that calls it. Model and trainer exist, nothing is wrapped yet, and
  checkpointing, DDP's options and the optimizer are all decided inside;
* ``Trainer.training_step`` and DeepSpeed's ``engine.step``: gradients after backward, before the
  optimizer, and the line of the first step.

Batches are not judged: no module of the wheel takes anything but text. Never a target:
``__main__``, which under ``-m`` is no module of that name.

Read on: the wrapper is here, the model's names in `names`, the translation to facts in
`translate`, changes in `apply`.
"""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core.facts import Run
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam
from vlmguard_transformers import arguments, steps, training


def train(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Judge and mend the run, train, explain what goes wrong."""
    if not contain("recognising a trainer", _ours, instance):
        return wrapped(*args, **kwargs)
    return training.guarded(wrapped, instance, args, kwargs, _before, steps.end)


def _ours(trainer: Any) -> bool:
    return any(
        kind.__module__.startswith("FlagEmbedding.abc.finetune") for kind in type(trainer).__mro__
    )


def _before(trainer: Any) -> Run | None:
    from vlmguard_flagembedding import apply, names, translate
    from vlmguard_transformers import freezing
    from vlmguard_transformers.gradients import Watch

    model = names.Named(trainer.model)
    wish = translate.freeze_wish()
    run = guard.pre_wrap(
        lambda: translate.run(trainer, wish, SEAMS),
        lambda plan: apply.apply(trainer, plan),
        lambda: freezing.check(model, wish, model.parts()),
    )
    if run is not None:
        contain("the dry step", _rehearse, trainer, run, model)
        steps.start(trainer, run, Watch(model, model.towers()))
    return run


def _rehearse(trainer: Any, run: Run, model: Any) -> None:
    from vlmguard_transformers.rehearse import rehearse

    gathers = getattr(trainer.model, "negatives_cross_device", False) and run.world > 1
    rehearse(
        trainer,
        run,
        model.towers(),
        names=model,
        hindrance="--negatives_cross_device: a forward needs every rank" if gathers else "",
    )


SEAMS = (
    arguments.SEAM,
    Seam(
        "train",
        ("transformers.trainer:Trainer.train",),
        train,
        "judges and mends the run before it is wrapped, explains failures",
    ),
    *steps.SEAMS,
)
