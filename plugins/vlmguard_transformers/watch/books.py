"""The ledger of a trainer's or a loop's run: one watcher for each of its optimizers."""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard.core.runstate import RunState
from vlmguard.ledger import speak
from vlmguard_torch.ledger import start
from vlmguard_transformers import trainer as hf


def follow(trainer: Any, state: RunState, optimizer: Any, whole: bool) -> None:
    """Follow the windows of ``optimizer``, as the setting ``ledger`` asks.

    Args:
        optimizer: without accelerate's wrapper; DeepSpeed's own.
        whole: whether no forward of its first step has been made.
    """
    run = state.run
    if run is None or state.settings.ledger == "off" or hf.compiles(trainer):
        return
    made = start.watch(
        trainer.model,
        optimizer,
        setting=state.settings.ledger,
        strategy=run.strategy,
        engine=_engine(trainer, optimizer),
        tokenizer=getattr(trainer, "processing_class", None),
        first_step=int(getattr(getattr(trainer, "state", None), "global_step", 0) or 0),
        whole=whole,
    )
    if made is None or made.on_verdicts is not None:
        return
    speak.listen(made, state)
    held = weakref.ref(made)
    state.at_close(lambda: _end(held()))


def _end(made: Any) -> None:
    if made is not None:
        made.close()


def _engine(trainer: Any, optimizer: Any) -> Any:
    """DeepSpeed's engine that steps this optimizer, None without."""
    wrapped = getattr(trainer.accelerator, "deepspeed_engine_wrapped", None)
    engine = getattr(wrapped, "engine", None)
    return engine if engine is not None and engine.optimizer is optimizer else None
