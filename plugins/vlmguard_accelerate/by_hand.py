"""The run of a loop whose model nothing takes that is watched: `vlmguard.guard_model`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vlmguard.core import runstate
from vlmguard.runtime import report
from vlmguard_accelerate import loop, plain_loop
from vlmguard_accelerate.standin import NONE, StandIn
from vlmguard_torch.layout import by_structure

_WRAPPERS = ("DataParallel", "DistributedDataParallel")


class ByHand(plain_loop.Plain):
    """The plain profile. Whoever asks for the guard is told that it is there."""

    speaks = True


PROFILE = ByHand()


def begin(model: Any, optimizer: Any, dataset: Any, collate_fn: Any) -> None:
    """Judge and watch the run of ``model``, unless its run is open."""
    if type(model).__name__ in _WRAPPERS:
        model = model.module
    if any(runstate.of(each) is not None for each in model.modules()):
        return
    if why := _obstacle(model):
        if report.rank() == 0:
            report.line(f"guard_model guards nothing: {why}")
        return
    rows = None
    if dataset is not None:
        rows = SimpleNamespace(dataset=dataset, collate_fn=collate_fn or _default())
    state = plain_loop.begin(StandIn(NONE, model, brief=True), model, rows, PROFILE)
    if state is not None:
        plain_loop.listen(state, model)
        if optimizer is not None:
            plain_loop.watch(state, optimizer)


def _obstacle(model: Any) -> str:
    """Why there is nothing to guard; "" if there is."""
    if not by_structure.sees(model):
        return "the model has no tower that sees or hears"
    if not loop.trains_towers(model):
        return "no parameter of the model requires a gradient"
    if not plain_loop.reads():
        return "transformers, which knows the classes of models, is not imported"
    return ""


def _default() -> Any:
    from torch.utils.data import default_collate

    return default_collate
