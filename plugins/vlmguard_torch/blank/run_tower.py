"""Run a tower on a blank input, and leave no trace of it but the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from vlmguard_torch import zero_contribution
from vlmguard_torch.layout import cross_attention
from vlmguard_torch.layout.model_layout import ModelLayout
from vlmguard_torch.media import blank_media


class Runner:
    """Holds the blank inputs of one model, on the CPU as they were made and where towers want them.

    made: kind → arguments of ``get_{kind}_features``.
    behind: kind → paths in the owner of modules that its features go through afterwards.
    """

    def __init__(
        self,
        found: ModelLayout,
        made: Mapping[str, Mapping[str, Any]],
        behind: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.layout = found
        self.made, self.behind = made, behind
        self._placed: dict[tuple[str, torch.device, torch.dtype], dict[str, Any]] = {}

    def run(
        self, kind: str, device: torch.device, asked: Mapping[str, Any], encodes: bool = False
    ) -> list[torch.Tensor]:
        """What the language model would read of it.

        asked: the forward's arguments; its options (a feature layer, a downsampling) decide which
        modules a real image would run, and go to the blank one too.
        encodes: ``generate`` encodes before its first forward; what its features go through
            afterwards is left to `finish`.
        """
        owner, towers = self.layout.owner, self.modules(kind)
        told = self._on(kind, device, _dtype(towers))
        with _undisturbed(device), _still(towers):
            if self.layout.crossing:
                return [cross_attention.states(owner, **told)]
            method = blank_media.method(owner, kind, told)
            told |= blank_media.options(method, asked)
            if getattr(owner.config, "return_dict", True) is False:
                told["return_dict"] = True  # as the model does: a tuple has no names
            features = zero_contribution.used(method(**told))
            return features if encodes and kind in self.behind else self._finished(kind, features)

    def finish(
        self, kind: str, device: torch.device, features: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """What the language model would read of features that were encoded before."""
        with _undisturbed(device), _still(self.modules(kind)):
            return self._finished(kind, features)

    def _finished(self, kind: str, features: list[torch.Tensor]) -> list[torch.Tensor]:
        for path in self.behind.get(kind, ()):
            module = self.layout.owner.get_submodule(path)
            features = [each for seen in features for each in zero_contribution.used(module(seen))]
        return [*features, *self._own()]

    def _own(self) -> list[torch.Tensor]:
        """Parameters of the owner's own, used as the model uses them: what shards weights gathers
        them by the operation that takes them."""
        return [getattr(self.layout.owner, name).clone() for name in self.layout.own]

    def modules(self, kind: str) -> list[Any]:
        """The towers of ``kind``, and what may lie between them and the language model."""
        paths = (*self.layout.towers.get(kind, ()), *self.layout.aligners)
        return [self.layout.owner.get_submodule(path) for path in paths]

    def behind_towers(self) -> frozenset[str]:
        """Paths of what is run behind any tower."""
        behind = {path for paths in self.behind.values() for path in paths}
        return frozenset(behind.union(self.layout.aligners).difference(self.layout.watched))

    def parameters(self, paths: Iterable[str]) -> list[Any]:
        """Of these modules, and the owner's own."""
        owner = self.layout.owner
        modules = map(owner.get_submodule, sorted(paths))
        inside = {id(p): p for module in modules for p in module.parameters()}
        return [*inside.values(), *owner.parameters(recurse=False)]

    def _on(self, kind: str, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
        """Kept on the device: moving it anew for each forward would wait."""
        key = kind, device, dtype
        if key not in self._placed:
            self._placed[key] = {
                name: _moved(value, device, dtype) for name, value in self.made[kind].items()
            }
        return dict(self._placed[key])


def _moved(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with torch.inference_mode(False):  # a tensor of inference mode never takes part in a backward
        return value.clone().to(device, dtype if value.is_floating_point() else value.dtype)


def _dtype(modules: list[Any]) -> torch.dtype:
    """What the tower computes in: its first weight's, as it lies there now. FSDP gathers in another
    type than it keeps."""
    for module in modules:
        for parameter in module.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
    return torch.get_default_dtype()


@contextlib.contextmanager
def _undisturbed(device: torch.device) -> Iterator[None]:
    """The random numbers that come after are those that would have come."""
    if device.type in ("cpu", "meta"):
        state = torch.get_rng_state()
        try:
            yield
        finally:
            torch.set_rng_state(state)
        return
    with torch.random.fork_rng(devices=[device.index or 0], device_type=device.type):
        yield


@contextlib.contextmanager
def _still(modules: list[Any]) -> Iterator[None]:
    """Batch norms do not count the blank input in their running statistics.

    Not where a tower is checkpointed: its recomputation would find them changed.
    """
    inside = [module for top in modules for module in top.modules()]
    recomputed = any(getattr(module, "gradient_checkpointing", False) for module in inside)
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    norms = [
        module
        for module in inside
        if isinstance(module, batch_norm) and module.training and not recomputed
    ]
    for module in norms:
        module.training = False
    try:
        yield
    finally:
        for module in norms:
            module.training = True
