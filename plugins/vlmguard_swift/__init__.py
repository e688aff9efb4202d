"""The ms-swift adapter (3.0 – 4.6).

What is patched and why:

* the command line, so that ``--vlmguard`` flags are ours and never ms-swift's;
* ``SwiftMixin.train``: the model and its trainer exist, nothing is wrapped yet. ms-swift decides
  the checkpoint variant once a process, in 3.0 – 3.5 even before there is a model: here it is read
  and, where it is wrong, undone and made again by ms-swift itself;
* ``Template.data_collator``: the batch is still on the CPU (often in a dataloader worker);
* ``LazyLLMDataset.__getitem__``, which silently replaces samples that fail to encode;
* ``Trainer.training_step`` and DeepSpeed's ``engine.step``: gradients after backward, before the
  optimizer, and the line of the first step.

Read on: the wrappers are here, the translation to facts in `translate`, changes in `apply`.
"""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.facts import Batch, Run, Sample
from vlmguard.faults import contain
from vlmguard.seams import Seam
from vlmguard_transformers import arguments, steps, training


def train(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Judge and mend the run, train, explain what goes wrong."""
    return training.guarded(wrapped, instance, args, kwargs, _before, _release)


def _before(trainer: Any) -> Run | None:
    from vlmguard_swift import apply, shared, translate
    from vlmguard_transformers import freezing

    shared.clear()
    wish = shared.freeze_wish()
    run = guard.pre_wrap(
        lambda: translate.run(trainer, wish, SEAMS),
        lambda plan: apply.apply(trainer, plan),
        lambda: freezing.check(trainer.model, wish, translate.paths(trainer.model)),
    )
    if run is not None:
        shared.publish(run)
        contain("the dry step", _rehearse, trainer, run)
        steps.start(trainer, run, translate.watch(trainer))
    return run


def _rehearse(trainer: Any, run: Run) -> None:
    from vlmguard_swift import forward, translate
    from vlmguard_transformers.rehearse import rehearse

    rehearse(
        trainer,
        run,
        translate.paths(trainer.model),
        untrained=translate.untrained(trainer),
        hindrance=forward.hindrance(trainer),
        around=lambda: forward.encoding(trainer),
        loss=forward.loss,
    )


def _release(trainer: Any) -> None:
    from vlmguard_swift import shared

    steps.end(trainer)
    shared.clear()


def collate(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Complete a text-only batch where the plan says so, then judge what will be collated."""
    rows = args[0] if args else kwargs.get("batch")
    completed = contain("completing the batch", _complete, instance, rows)
    if completed is not None:
        rows = completed
    contain("judging the batch", _judge, instance, rows, completed is not None)
    if args:
        return wrapped(rows, *args[1:], **kwargs)
    return wrapped(**{**kwargs, "batch": rows})


def _complete(template: Any, rows: Any) -> Any:
    from vlmguard_swift import dummy, shared

    run = shared.run()
    return dummy.complete(template, rows) if run is not None and run.completing else None


def _judge(template: Any, rows: Any, completed: bool) -> None:
    from vlmguard_swift import encoded, shared

    run = shared.run()
    if run is not None:
        guard.pre_step(run, batch=encoded.batch(template, rows, completed))


def fetch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """ms-swift advances ``_idx`` exactly when it takes another sample than the one asked for."""
    before = contain("reading a data set", getattr, instance, "_idx", None)
    row = wrapped(*args, **kwargs)
    if before is not None:
        contain("noting a replaced sample", _replaced, instance, before, args)
    return row


def _replaced(dataset: Any, before: int, args: tuple[Any, ...]) -> None:
    if dataset._idx == before:
        return
    from vlmguard_swift import shared

    run = shared.run() or Run("ms-swift")
    why = f"row {args[0] if args else '?'}; the first failures are logged above"
    guard.pre_step(run, batch=Batch((Sample(replaced=why),)))


SEAMS = (
    arguments.SEAM,
    Seam("train", ("swift.trainers.mixin:SwiftMixin.train",), train,
         "judges and mends the run before it is wrapped, explains failures"),
    Seam("collate", ("swift.template.base:Template.data_collator",
                     "swift.llm.template.base:Template.data_collator"), collate,
         "completes and checks each batch on the CPU"),
    Seam("fetch", ("swift.dataset.utils:LazyLLMDataset.__getitem__",
                   "swift.llm.dataset.utils:LazyLLMDataset.__getitem__"), fetch,
         "sees samples that were replaced"),
    *steps.SEAMS,
)  # fmt: skip
