"""The wrappers that a user's own loop asks for, on a CPU and as small as its tiny model."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from vlmguard.rehearse.argv import Argv
from vlmguard_transformers.rehearsal import cpu_flags, plain_wrappers
from vlmguard_transformers.rehearsal.plain_wrappers import Seen


def install(spec: Mapping[str, Any], seen: Seen, engine: Callable[[Any], None]) -> None:
    """From now on, in this process.

    Args:
        spec: of it ``bucket``, ``shrunk`` and ``world``.
        seen: hears which wrapper was asked for, with its configuration.
        engine: gets DeepSpeed's engine when it is made.
    """
    _ddp(int(spec["bucket"]), seen)
    _fsdp2(seen)
    _deepspeed(spec, seen, engine)


def _ddp(bucket: int, seen: Seen) -> None:
    from torch.nn.parallel import DistributedDataParallel as Ddp

    own = Ddp.__init__
    names = list(inspect.signature(own).parameters)

    @functools.wraps(own)
    def made(ddp: Any, *args: Any, **named: Any) -> None:
        named = {**dict(zip(names[1:], args, strict=False)), **named}
        named.pop("device_ids", None)
        named.pop("output_device", None)
        if bucket:
            named.setdefault("bucket_cap_mb", bucket)
        seen("ddp", {})
        own(ddp, **named)

    Ddp.__init__ = made  # type: ignore[method-assign]


def _fsdp2(seen: Seen) -> None:
    from torch.distributed import fsdp

    own = fsdp.fully_shard

    @functools.wraps(own)
    def sharded(module: Any, *args: Any, **named: Any) -> Any:
        seen("fsdp2", {})
        named.pop("mp_policy", None)
        named.pop("offload_policy", None)
        return own(module, *args, **named)

    plain_wrappers.sharded_by(sharded)


def _deepspeed(spec: Mapping[str, Any], seen: Seen, engine: Callable[[Any], None]) -> None:
    try:
        import deepspeed
    except ImportError:
        return
    own = deepspeed.initialize

    @functools.wraps(own)
    def made(*args: Any, **named: Any) -> Any:
        asked = plain_wrappers.initialize_arguments(args, named)
        config = configured(asked["config"], float(spec["shrunk"]), int(spec["world"]))
        seen("deepspeed", config)
        if asked["optimizer"] is None:
            asked["optimizer"] = plain_wrappers.optimizer_of(asked)
        if hasattr(asked["args"], "deepspeed_config"):
            asked["args"] = None
        found = own(**{**asked, "config": config})
        engine(found[0])
        return found

    deepspeed.initialize = made


def configured(given: Mapping[str, Any], shrunk: float, world: int) -> dict[str, Any]:
    """The same configuration for a tiny model in float32, plain SGD, and two of ``world`` ranks."""
    config = cpu_flags.plain(cpu_flags.small(given, shrunk, Argv([])))
    kept = {name: given[name] for name in cpu_flags.BATCHES if name in given}
    whole = kept.pop("train_batch_size", None)
    micro = kept.setdefault("train_micro_batch_size_per_gpu", 1)
    if "gradient_accumulation_steps" not in kept:
        together = int(micro) * world
        kept["gradient_accumulation_steps"] = max(1, int(whole or together) // together)
    scheduler = given.get("scheduler")
    if scheduler and "auto" not in json.dumps(scheduler):
        kept["scheduler"] = scheduler
    return {
        **{name: value for name, value in config.items() if name not in cpu_flags.BATCHES},
        **kept,
    }
