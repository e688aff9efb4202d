"""One forward and backward on a batch before training, that leaves no trace: for any torch module.

An adapter calls `run` on the plain model, before anything wraps it, and `say` with what came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from vlmguard.core.facts import Gradients, Wiring
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_torch.layout.towers import kind_of, modules, plain
from vlmguard_torch.observe.isolated_state import random_kept
from vlmguard_torch.watch.tower_forwards import TowerForwards

Loss = Callable[[Any, Mapping[str, Any]], Any]


class CannotTry(Exception):
    """Why there can be no dry step."""


@dataclass(frozen=True)
class Tower:
    """One tower after the backward.

    Attributes:
        trainable: number of its trainable parameter tensors.
        reached: how many of them got a gradient.
        norm: L2 norm of all their gradients together, in float32, not averaged over ranks.
        without: plain names of those that got none.
        wiring: what its forwards say about that.
    """

    kind: str
    trainable: int
    reached: int
    norm: float
    without: tuple[str, ...]
    wiring: Wiring = "unknown"


def loss_of(model: Any, batch: Mapping[str, Any]) -> Any:
    """The loss that a model called with its labels gives back."""
    out = model(**batch)
    return out["loss"] if isinstance(out, Mapping) else getattr(out, "loss", None)


def run(
    model: Any,
    batch: Mapping[str, Any],
    paths: Mapping[str, tuple[str, ...]],
    loss: Loss = loss_of,
    names: Any = None,
) -> tuple[Tower, ...]:
    """Try ``batch`` on the plain model; afterwards everything is as it was, bit for bit:
    parameters, gradients, buffers, what forward keeps on its modules, modes, random states. The
    optimizer is not touched. For the time of it, memory holds one more set of gradients.

    Args:
        batch: forward's keyword arguments; tensors are moved to the model's device.
        paths: tower kind → module paths.
        loss: (model, batch) → scalar tensor.
        names: what has ``named_parameters`` in the words of ``paths``, if not the model.

    Raises:
        CannotTry: weights that are not there yet, an optimizer inside backward, a batch that is no
            mapping, no loss, or whatever forward and backward raise.
    """
    if why := _hindrance(model, batch):
        raise CannotTry(why)
    with kept(model):
        named = modules(names or model)
        seen = {kind: TowerForwards(model, named, where) for kind, where in paths.items()}
        try:
            _backward(model, _moved(batch, next(model.parameters()).device), loss)
            wirings = {kind: each.wiring(paths[kind]) for kind, each in seen.items()}
            return _towers(names or model, paths, wirings)
        except CannotTry:
            raise
        except Exception as error:
            raise CannotTry(f"{type(error).__name__}: {error}") from error
        finally:
            for each in seen.values():
                each.close()


def say(
    towers: tuple[Tower, ...], untrained: tuple[str, ...] = (), state: RunState | None = None
) -> Gradients:
    """Report each tower; the same as facts, for the rules about gradients that never arrive.

    Args:
        untrained: parts of names that this model family never trains.
        state: the guarded run.
    """
    for tower in towers:
        report.line(
            f"dry step [{report.who()}]: {tower.kind}: {tower.reached} of {tower.trainable} "
            f"trainable parameters got a gradient, norm {tower.norm:.3g}"
        )
        report.write("dry_step", {**vars(tower)}, state)
    left = {tower.kind: tower.without for tower in towers if tower.without}
    names = [name for group in left.values() for name in group]
    return Gradients(
        unreached=left,
        trainable={tower.kind: tower.trainable for tower in towers},
        wiring={t.kind: t.wiring for t in towers if t.trainable and not t.reached},
        tried=True,
        by_design=tuple(n for n in names if any(part in n for part in untrained)),
    )


def _hindrance(model: Any, batch: Any) -> str:
    if not isinstance(batch, Mapping):
        return f"a batch must be a mapping, not {type(batch).__name__}"
    if why := unready(model):
        return why
    parameters = list(model.parameters())
    if any(p._post_accumulate_grad_hooks for p in parameters):
        return "hooks act on gradients as they arrive (an optimizer inside backward?)"
    if not any(p.requires_grad for p in parameters):
        return "nothing is trainable"
    return ""


def unready(model: Any) -> str:
    """Why ``model`` cannot run a forward by itself yet; "" where it can."""
    parameters = list(model.parameters())
    if any("LazyTensor" in {b.__name__ for b in type(p).__mro__} for p in parameters):
        return "the model is lazily initialised: its weights are not there yet"
    if any(p.is_meta for p in parameters):
        return "the model is on the meta device: its weights are not there yet"
    if any(hasattr(p, "ds_id") for p in parameters):
        return "its weights are partitioned already (DeepSpeed's zero.Init)"
    return "" if parameters else "it has no weights"


def _moved(batch: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    return {name: _on(value, device) for name, value in batch.items()}


def _on(value: Any, device: torch.device) -> Any:
    """Tensors moved, also inside the mappings and lists that collators make."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _on(inner, device) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on(inner, device) for inner in value)
    return value


def _backward(model: Any, batch: Mapping[str, Any], loss: Loss) -> None:
    with torch.enable_grad():
        value = loss(model, batch)
        if not isinstance(value, torch.Tensor):
            raise CannotTry("the model gives no loss for this batch")
        value.backward()  # type: ignore[no-untyped-call]


def _towers(
    names: Any, paths: Mapping[str, tuple[str, ...]], wirings: Mapping[str, Wiring]
) -> tuple[Tower, ...]:
    found: dict[str, list[tuple[str, Any]]] = {}
    for name, parameter in names.named_parameters():
        if parameter.requires_grad:
            bare = plain(name)
            found.setdefault(kind_of(bare, paths), []).append((bare, parameter.grad))
    towers = []
    for kind, pairs in found.items():
        norms = [grad.detach().float().norm() for _, grad in pairs if grad is not None]
        norm = float(torch.stack([n.cpu() for n in norms]).norm()) if norms else 0.0
        without = tuple(name for name, grad in pairs if grad is None)
        wiring = wirings.get(kind, "unknown")
        towers.append(Tower(kind, len(pairs), len(norms), norm, without, wiring))
    return tuple(towers)


@contextmanager
def kept(model: Any) -> Iterator[None]:
    """Set aside what a step changes, and put it back whatever happens."""
    parameters = list(model.parameters())
    with random_kept(model), ExitStack() as after:
        after.callback(_modules(model))
        for parameter in parameters:
            after.callback(setattr, parameter, "grad", parameter.grad)
            parameter.grad = None
        model.train()
        yield


def _modules(model: Any) -> Callable[[], None]:
    """Modes, caches that a forward leaves on its modules, buffers and their values."""
    registered = ("_parameters", "_buffers", "_modules")
    held = [
        (module, dict(vars(module)), {name: dict(vars(module)[name]) for name in registered})
        for module in model.modules()
    ]
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]

    def restore() -> None:
        for module, attributes, tables in held:
            vars(module).clear()
            vars(module).update(attributes)
            for name, table in tables.items():
                attributes[name].clear()
                attributes[name].update(table)
        with torch.no_grad():
            for buffer, before in values:
                buffer.copy_(before)

    return restore
