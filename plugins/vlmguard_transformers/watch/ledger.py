"""The ledger of a trainer's or an accelerate loop's run: which model, engine and words it has."""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard import guard, run_report
from vlmguard.core.runstate import RunState
from vlmguard.ledger.when import When
from vlmguard.runtime import report, seams
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam
from vlmguard_torch import stepping
from vlmguard_torch.ledger import start
from vlmguard_torch.ledger.watcher import Watcher
from vlmguard_transformers import row_order
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.watch import logs

_KEPT, _LEFT = "ledgers", "no ledger"


def watch(trainer: Any, state: RunState, optimizer: Any, whole: bool) -> None:
    """Keep the books of the run's model and one optimizer, as long as the run lasts.

    A compiled model is left alone: hooks on it would have it compiled once more.
    """
    run = state.run
    if run is None or state.phase != "train":
        return
    if hf.compiles(trainer):
        _leave(state)
        return
    made = begin(
        trainer, optimizer,
        setting=state.settings.ledger, strategy=run.strategy, whole=whole, state=state,
    )  # fmt: skip
    if made is None:
        return
    others = state.kept.get(_KEPT)
    if others is None:
        others = state.kept[_KEPT] = weakref.WeakSet()
        state.at_close(seams.over(type(trainer), "_save_checkpoint", _SEAM))
        logs.watch(trainer, state)
    for each in list(others):
        if each is not made and stepping.held(each.optimizer()) & stepping.held(optimizer):
            each.close(0.0)  # its parameters belong to another optimizer now
    others.add(made)
    state.closes(made)


def _leave(state: RunState) -> None:
    """Say once that there is no ledger of a compiled model."""
    off = When(guard.in_force(state).ledger).off
    if not off and not state.kept.get(_LEFT) and report.rank() == 0 and run_report.greets(state):
        state.kept[_LEFT] = True
        report.line(
            "ledger: cannot tell whether the first steps balance: torch.compile has the model or a "
            "part of it, and hooks would have it compiled again"
        )


def begin(trainer: Any, optimizer: Any, **how: Any) -> Watcher | None:
    """A watcher of the trainer's model and one optimizer, told what the trainer knows.

    optimizer: as it steps. how: what else `start.watch` takes.
    """
    return start.watch(
        trainer.model, optimizer,
        engine=_engine(trainer, optimizer), tokenizer=_words(trainer), first_step=_step(trainer),
        group=getattr(trainer.accelerator, "group", None), extra=_told(trainer), **how,
    )  # fmt: skip


_SEAM = Seam("own save", (), f"{__name__}:save", "compares the ranks' weights behind a checkpoint")


def save(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A trainer has written a checkpoint."""
    done = wrapped(*args, **kwargs)
    contain("the ledger", _saved, instance)
    return done


def _saved(trainer: Any) -> None:
    state = guard.state_of(trainer)
    for each in list(state.kept.get(_KEPT, ())) if state is not None else ():
        each.saves()


def _engine(trainer: Any, optimizer: Any) -> Any:
    """DeepSpeed's, if it is the one that steps this optimizer."""
    wrapped = getattr(trainer.accelerator, "deepspeed_engine_wrapped", None)
    engine = getattr(wrapped, "engine", None)
    return engine if engine is not None and engine.optimizer is optimizer else None


def _told(trainer: Any) -> dict[str, Any]:
    """What the trainer was told that its numbers can be compared with."""
    args = getattr(trainer, "args", None)
    epoch = float(getattr(getattr(trainer, "state", None), "epoch", None) or 0.0)
    return {
        "epoch_begins": epoch > 0 and abs(epoch - round(epoch)) < 1e-3,
        "accumulation": getattr(args, "gradient_accumulation_steps", None),
        "means": getattr(trainer, "model_accepts_loss_kwargs", None) is False,
        "max_norm": getattr(args, "max_grad_norm", None),
        "shares_rows": row_order.shares_rows(trainer),
    }


def _words(trainer: Any) -> Any:
    """Its tokenizer or processor."""
    found = (getattr(trainer, name, None) for name in ("processing_class", "tokenizer"))
    return next((each for each in found if each is not None), None)


def _step(trainer: Any) -> int:
    """Steps so far, of a run that was resumed too."""
    return int(getattr(getattr(trainer, "state", None), "global_step", 0) or 0)
