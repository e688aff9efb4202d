"""The ms-swift adapter (3.0 – 4.6).

What is patched and why:

* the command line, so that ``--vlmguard`` flags are ours and never ms-swift's;
* ``SwiftMixin.train``: the model and its trainer exist, nothing is wrapped yet. ms-swift decides
  the checkpoint variant once a process, in 3.0 – 3.5 even before there is a model: here it is read
  and, where it is wrong, undone and made again by ms-swift itself;
* ``Template.data_collator``: the batch is still on the CPU (often in a dataloader worker);
* ``Template._post_encode``, between the batch and forward: a step without an image can still run
  the towers;
* ``LazyLLMDataset.__getitem__``, which silently replaces samples that fail to encode;
* ``Trainer.training_step`` and DeepSpeed's ``engine.step``: gradients after backward, before the
  optimizer, and the line of the first step.

Read on: the wrappers are here, the translation to facts in `translate`, changes in `apply`.
"""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core.facts import Batch, Run, Sample
from vlmguard.runtime.faults import contain, fault
from vlmguard.runtime.seams import Seam
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
    """Judge what will be collated."""
    rows = args[0] if args else kwargs.get("batch")
    contain("judging the batch", _judge, instance, rows)
    return wrapped(*args, **kwargs)


def _judge(template: Any, rows: Any) -> None:
    from vlmguard_swift import encoded, shared

    run = shared.run()
    if run is not None:
        guard.pre_step(run, batch=encoded.batch(template, rows, run.pads))


def embed(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Have a forward without an image run the towers, where the plan says so."""
    inputs = wrapped(*args, **kwargs)
    completed = contain("completing a forward", _touch, instance, args, kwargs, inputs)
    return inputs if completed is None else completed


def _touch(template: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: Any) -> Any:
    from vlmguard_swift import shared

    run = shared.run()
    if run is None or not run.pads:
        return None
    from vlmguard_swift import dummy

    try:
        return dummy.forward(template, args[0] if args else kwargs["model"], inputs)
    except Exception as error:
        fault("completing a forward", error)
        # VG204 knows whether this step may go on without
        guard.pre_step(run, batch=Batch((), ("text",)))
        return None


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
         "checks each batch on the CPU"),
    Seam("embed", ("swift.template.base:Template._post_encode",
                   "swift.llm.template.base:Template._post_encode"), embed,
         "runs the towers in a forward without an image"),
    Seam("fetch", ("swift.dataset.utils:LazyLLMDataset.__getitem__",
                   "swift.llm.dataset.utils:LazyLLMDataset.__getitem__"), fetch,
         "sees samples that were replaced"),
    *steps.SEAMS,
)  # fmt: skip
