"""Begins to watch a model and its optimizer: `vlmguard.ledger.watch`."""

from __future__ import annotations

import atexit
import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.runstate import RunState
from vlmguard.ledger import speak
from vlmguard.ledger.account import STATIONS, Verdict
from vlmguard.ledger.between_ranks.gather import Gather
from vlmguard.ledger.when import When
from vlmguard.runtime import exchange, ranks, stub
from vlmguard_torch import stepping
from vlmguard_torch.ledger import watcher
from vlmguard_torch.ledger.accounts import account_of, strategy_of
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.ledger.readers import text
from vlmguard_torch.ledger.watcher import Watcher

_numbers = itertools.count()
"""Watchers of a process, counted alike on all ranks."""
_WRAPPERS = ("DistributedDataParallel", "OptimizedModule")
_at_exit: list[Callable[[], None]] = []


def watch(
    model: Any,
    optimizer: Any,
    *,
    setting: str | int | None = None,
    on_verdicts: Callable[[int, Sequence[Verdict]], None] | None = None,
    stations: Sequence[str] = STATIONS,
    strategy: str = "",
    engine: Any = None,
    group: Any = None,
    tokenizer: Any = None,
    first_step: int = 0,
    extra: Any = None,
    whole: bool = True,
    state: RunState | None = None,
) -> Watcher | None:
    """Watch ``model`` and the ``optimizer`` that moves it; both may be wrapped.

    Args:
        setting: which windows: "off", "first", or N for one in N as well; as set if not given.
        on_verdicts: gets ``(step, verdicts)``, on global rank 0; they are said if not given.
        stations: those that are read.
        strategy: "ddp", "zero2", …; found on the objects if not given.
        engine: DeepSpeed's, where ``model`` is not it.
        group: process group of the ranks that share the data; all ranks if not given.
        tokenizer: tokenizer or processor, for words about rows.
        first_step: steps of the run so far.
        extra: what else readers are told.
        whole: whether no forward of the first step has been made.
        state: the guarded run that this is; found by model and optimizer if not given.

    Returns:
        None where nothing can be watched: no hooks, or another group of ranks than rank 0's.
    """
    if engine is None and hasattr(model, "zero_optimization_stage"):
        engine = model
    wrapped, model = model, _inner(model)
    optimizer = stepping.own(optimizer)
    place, world = _place(group)
    if place is None:
        next(_numbers)  # the next one's number is that of rank 0 again
        return None
    state = state or runstate.of(model) or runstate.of(optimizer)
    when = When(guard.in_force(state).ledger if setting is None else setting)
    if stub.is_off() or when.off or not _steps(optimizer, engine):
        return None
    known = [each for each in watcher.of(optimizer) if each.model() is model]
    if known:
        return known[0]
    strategy = strategy or strategy_of(model, wrapped, engine)
    account = replace(account_of(model, optimizer, world, strategy), text=text.of(tokenizer))
    parameters = tuple(p for _, p in model.named_parameters())
    subject = Subject(
        model, optimizer, parameters, account,
        engine=engine, group=group, tokenizer=tokenizer, extra=extra or {},
    )  # fmt: skip
    name, run = f"ledger/{next(_numbers)}", 0
    gather = Gather(lambda: exchange.mailbox(name, run), place, world)
    _close_at_exit()
    made = Watcher(
        subject, list(readers(stations)), when=when, on_verdicts=on_verdicts, gather=gather,
        first_step=first_step, rank=ranks.rank(), whole=whole,
    )  # fmt: skip
    if on_verdicts is None:
        speak.listen(made, state, recalls=not (extra or {}).get("epoch_begins"))
    return made


def readers(stations: Sequence[str]) -> Iterator[type[Reader]]:
    """The reader of each station that has one."""
    for name in stations:
        where = f"{__package__}.readers.{name}"
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as missing:
            if missing.name != where:
                raise
            continue
        yield from (
            each for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, Reader) and each.name == name
        )  # fmt: skip


def _inner(model: Any) -> Any:
    while hasattr(model, "zero_optimization_stage") or type(model).__name__ in _WRAPPERS:
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


def _steps(optimizer: Any, engine: Any) -> bool:
    """Whether its steps are seen: torch's optimizers have hooks, unless ``__init__`` was never
    called."""
    return engine is not None or hasattr(optimizer, "_optimizer_step_pre_hooks")


def group_of(wrapper: Any) -> Any:
    """The process group of a DDP wrapper, None if it is that of all ranks."""
    group = getattr(wrapper, "process_group", None)
    dist = ranks.group()
    if group is None or dist is None or dist.get_world_size(group) == ranks.world():
        return None
    return group


def _place(group: Any) -> tuple[int | None, int]:
    """This rank's place in the group, and its size; None where rank 0 is in another one."""
    dist = ranks.group()
    if dist is None or group is None:
        return (ranks.rank(), ranks.world()) if dist is not None else (0, 1)
    members = dist.get_process_group_ranks(group)
    if 0 not in members:
        return None, len(members)
    return members.index(ranks.rank()), len(members)


def _close_at_exit() -> None:
    """Pages that are still to come when a loop ends, with its process."""
    if not _at_exit:
        _at_exit.append(_close_all)
        atexit.register(_close_all)


def _close_all() -> None:
    for each in watcher.everyone():
        each.close()
