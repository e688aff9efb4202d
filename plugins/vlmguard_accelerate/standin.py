"""What of an accelerator there is in a plain loop: as much as the Trainer adapter reads.

It holds neither the model nor an engine: a hook of the model holds it, by the run's state.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from vlmguard.runtime import ranks

DDP, FSDP2, DEEPSPEED, NONE = "MULTI_DDP", "FSDP", "DEEPSPEED", "NO"
"""As accelerate names them."""
_READ = ("find_unused_parameters", "static_graph")


class StandIn:
    """Stands for an accelerator of one of these kinds.

    Attributes:
        brief: whether its run ends where a wrapper takes the model, or what holds it.
    """

    gradient_accumulation_steps = 1
    sync_gradients = True
    ddp_handler: Any = None

    def __init__(self, kind: str, model: Any, brief: bool = False, **state: Any) -> None:
        self.distributed_type, self.brief = kind, brief
        self.state = SimpleNamespace(**state)
        self.num_processes, self.process_index = ranks.world(), ranks.rank()
        self.device = next(model.parameters()).device


class Ddp(StandIn):
    """The same under DDP, with the options that it is given."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        super().__init__(DDP, model)
        self.given = {name: options.get(name, False) for name in _READ}
        self.ddp_handler = SimpleNamespace(**self.given)
        self.group: Any = None
        """The process group that shares the model, None if it is that of all ranks."""

    def changed(self) -> dict[str, bool]:
        """The options that a plan changed."""
        now = vars(self.ddp_handler)
        return {name: bool(now[name]) for name in _READ if now[name] != self.given[name]}


class Config:
    """DeepSpeed's config, asked as transformers' own class is."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def get_value(self, name: str, default: Any = None) -> Any:
        """The value at a path with dots."""
        found: Any = self.config
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return default if found is None else found


class Deepspeed(StandIn):
    """The same under DeepSpeed, whose engine has read its config."""

    def __init__(self, model: Any, config: Mapping[str, Any], accumulation: int) -> None:
        plugin = SimpleNamespace(hf_ds_config=Config(config))
        super().__init__(DEEPSPEED, model, deepspeed_plugin=plugin)
        self.gradient_accumulation_steps = accumulation
        self._engine: Any = None

    def belongs(self, engine: Any) -> None:
        """The engine has taken the model."""
        self._engine = weakref.ref(engine)

    @property
    def deepspeed_engine_wrapped(self) -> Any:
        """As accelerate keeps it."""
        return SimpleNamespace(engine=self._engine() if self._engine is not None else None)
