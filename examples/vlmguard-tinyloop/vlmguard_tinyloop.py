"""The vlmguard adapter of tinyloop: what it does is read, judged, mended, and read again.

Imported with the framework, in inference scripts too: so standard library only up here.
"""

from __future__ import annotations

from typing import Any

from vlmguard.runtime.seams import Seam

SEAMS = (
    Seam(
        "fit",
        ("tinyloop:Loop.fit",),
        "vlmguard_tinyloop:fit",
        "judges and mends the run before DDP wraps the model",
    ),
)


def fit(wrapped: Any, loop: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The wrapper of `Loop.fit`: the framework's own call exactly once, in no ``try`` that
    swallows."""
    from vlmguard import guard
    from vlmguard.runtime.faults import contain

    state = contain("judging the run", begin, loop)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", guard.on_error, getattr(state, "run", None), None, error)
        raise
    finally:
        contain("ending the run", guard.close, state)


def begin(loop: Any) -> Any:
    """Facts → rules → plan → `apply` → facts again. Raises `Stop` where training must not go on;
    every other exception is contained by the caller."""
    from vlmguard import guard

    return guard.pre_wrap(lambda: read(loop), lambda plan: apply(loop, plan), owner=loop)


def read(loop: Any) -> Any:
    """What `fit` is about to do, as facts. Called again after `apply`."""
    from importlib import metadata

    from vlmguard import Run
    from vlmguard.core.facts import Checkpointing
    from vlmguard.runtime import ranks

    world = ranks.world()
    return Run(
        framework="tinyloop",
        releases={"torch": metadata.version("torch")},
        strategy="ddp" if world > 1 else "single",
        world=world,
        rank=ranks.rank(),
        checkpointing=Checkpointing(True, loop.use_reentrant, decided_by="Loop"),
        frozen=any(not p.requires_grad for p in loop.model.parameters()),
        find_unused=loop.find_unused if world > 1 else None,
        static_graph=False if world > 1 else None,
    )


def apply(loop: Any, plan: Any) -> dict[str, list[str]]:
    """Make the plan's changes, all or none; what was changed, in words."""
    wanted = plan.variant
    changes = []
    for name in ("use_reentrant", "find_unused"):
        value = getattr(wanted, name, None)
        if value is not None:
            changes.append(f"{name}: {getattr(loop, name)} → {value}")
            setattr(loop, name, value)
    return {"variant": changes}
