"""A plain loop under FSDP2: judged and mended where ``fully_shard`` takes its model as a whole.

Parts are taken before it, and hold no towers. The run of a part that does ends with the whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_accelerate import loop, plain_loop
from vlmguard_accelerate.standin import FSDP2, StandIn


def taken(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Judge and mend the run of a plain loop whose model is about to be split."""
    module = args[0] if args else kwargs.get("module")
    state = contain("judging a loop", _begin, module)
    made = wrapped(*args, **kwargs)
    if state is not None:
        contain("listening to a loop's forwards", _listen, state, module)
    return made


def _begin(module: Any) -> RunState | None:
    """The open state of a loop that trains towers, if this is where it begins."""
    if not loop.trains_towers(module) or not plain_loop.alone(module):
        return None
    plugin = SimpleNamespace(fsdp_version=2)
    return plain_loop.begin(StandIn(FSDP2, module, brief=True, fsdp_plugin=plugin), module)


def _listen(state: RunState, module: Any) -> None:
    """Before FSDP2 puts whole parameters in the place of its shards, which the optimizer moves."""
    loop.hears_first(state, module)
    plain_loop.listen(state, module)
