"""Reads how the weights moved in a step: a few entries a tensor, before and after it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from vlmguard_torch import stepping
from vlmguard_torch.ledger import accounts
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.ledger.readers import samples

_ADAM = re.compile(r"(Paged|Fused|DeepSpeedCPU)?N?Adam(W)?(8bit|32bit)?")
_FROM = ("torch", "transformers", "apex", "deepspeed", "bitsandbytes")
_EPS = 1e-8
_CAREFUL = 0.1
"""An update is taken to be no smaller than this part of what the first step's would be."""
Key = tuple[torch.device, torch.dtype, int]


class Update(Reader):
    """What each tensor's sampled entries did. A row of ``rows`` is for the tensor in ``index``. It
    counts entries with a gradient; of these expected to move; moved; with a gradient and moved;
    that would move at the group's highest learning rate. Its last number sums the squares of the
    moves."""

    name = "update"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.close()

    def before(self) -> None:
        """The entries as they are; DeepSpeed's gradients, which are gone after the step."""
        self._rates = accounts.rates(self.subject.optimizer)
        self._peaks = accounts.peaks(self.subject.optimizer)
        self._flags = [p.requires_grad for p in self.subject.parameters]
        self._held = accounts.groups(self.subject.optimizer)
        for n, p in enumerate(self.subject.parameters):
            view = samples.sample(samples.weight(self.subject, n))
            if view is not None:
                key = (view.device, view.dtype, self._held.get(id(p), -1))
                self._places.setdefault(key, []).append(n)
                self._views[n] = view
        engine = self.subject.engine is not None
        for key, numbers in self._places.items():
            self._old[key] = _table([self._views[n] for n in numbers])
            if engine:
                self._gradients[key] = self._gradient(numbers)
        self._views.clear()

    def after(self) -> None:
        """The same entries again, and torch's gradients: a hook may have changed them."""
        self._infinite = getattr(self.subject.optimizer, "found_inf", None)
        for key, numbers in self._places.items():
            views = [samples.sample(samples.weight(self.subject, n)) for n in numbers]
            if any(view is None or view.dtype != key[1] for view in views):
                continue
            held = self._gradients.get(key)
            found = self._gradient(numbers) if held is None else held
            group = key[2]
            rate, peak = (each[group] if 0 <= group < len(each) else 0.0
                          for each in (self._rates, self._peaks))  # fmt: skip
            sizes = torch.tensor([view.numel() for view in views], dtype=torch.float32)
            rows = self._judge(self._old[key], _table(views), found, (rate, peak), self._eps(group))
            self._rows.append((numbers, sizes, rows))
        self._old.clear()
        self._gradients.clear()
        self._missing = self._unheld()

    def _gradient(self, numbers: list[int]) -> torch.Tensor:
        """Zero where there is none."""
        found = []
        for n in numbers:
            held = samples.weight(self.subject, n)
            view = samples.sample(samples.gradient(self.subject, n), held)
            if view is None:
                view = torch.zeros_like(samples.sample(held))
            found.append(view.to(held.dtype))
        return _table(found)

    def _eps(self, group: int) -> float:
        """What Adam adds to the root of its second moment: a large one makes small updates."""
        groups = getattr(self.subject.optimizer, "param_groups", ())
        found = groups[group].get("eps") if 0 <= group < len(groups) else None
        return max(float(found), _EPS) if isinstance(found, (int, float)) else _EPS

    def _judge(
        self, old: torch.Tensor, new: torch.Tensor, gradient: torch.Tensor,
        rates: tuple[Any, Any], eps: float,
    ) -> torch.Tensor:  # fmt: skip
        gradient = gradient.float()
        with_gradient = (gradient != 0) & gradient.isfinite()
        moved = (old != new) & new.isfinite()
        due, most = (self._due(old, gradient, each, eps) & with_gradient for each in rates)
        square = (new.float() - old.float()).square().nan_to_num(0.0, 0.0, 0.0)
        counts = [with_gradient, due, moved, with_gradient & moved, most, square]
        return torch.stack([each.sum(1, dtype=torch.float32) for each in counts], 1)

    def _due(
        self, old: torch.Tensor, gradient: torch.Tensor, rate: Any, eps: float
    ) -> torch.Tensor:
        """Entries that an update by ``rate`` would move."""
        family = self.family
        if not family or rate is None:
            return torch.zeros_like(gradient, dtype=torch.bool)
        size = gradient if family == "sgd" else gradient / (gradient.abs() + eps)
        update = size.abs() * rate * _CAREFUL
        wide = old.float()
        return ((wide + update).to(old.dtype) != old) & ((wide - update).to(old.dtype) != old)

    @property
    def family(self) -> str:
        """ "adam", "sgd", or "" for an optimizer whose update is not foreseen."""
        *_, inner = stepping.chain(self.subject.optimizer)
        kind = type(inner)
        scaled = getattr(inner, "grad_scale", None) is not None  # bool() of it would wait
        if kind.__module__.partition(".")[0] not in _FROM or scaled:
            return ""
        if _ADAM.fullmatch(kind.__name__):
            return "adam"
        return "sgd" if kind.__name__ == "SGD" else ""

    def _unheld(self) -> list[int]:
        """Trainable tensors that no optimizer holds; under torch's, those with a gradient."""
        from vlmguard_torch.ledger import optimizers

        held = optimizers.held(self.subject.optimizer)
        engine = self.subject.engine is not None
        if engine and not any(id(p) in held for p in self.subject.parameters):
            return []
        return [
            n for n, p in enumerate(self.subject.parameters)
            if self._flags[n] and id(p) not in held and (engine or p.grad is not None)
        ]  # fmt: skip

    def page(self) -> Mapping[str, Any] | str:
        if not self._rows:
            return "no weight can be read where the optimizer keeps it"
        order = [n for numbers, _, _ in self._rows for n in numbers]
        return {
            "index": order,
            "entries": [size for _, sizes, _ in self._rows for size in sizes.tolist()],
            "rows": torch.cat([rows.to(self._rows[0][2].device) for *_, rows in self._rows]),
            "trains": [int(self._flags[n]) for n in order],
            "master": [int(samples.is_master(self.subject, n)) for n in order],
            "group": [self._held.get(id(self.subject.parameters[n]), -1) for n in order],
            "missing": self._missing,
            "lr": self._rates,
            "peak": self._peaks,
            "family": self.family,
            "infinite": self._infinite,
            "untied": self._untied(),
            "copies": self._copies,
            "alike": self._alike,
            "adapted": hasattr(self.subject.model, "get_base_model"),
            "hooked": _hooked(self.subject.optimizer),
        }

    def _untied(self) -> list[list[str]]:
        """Names that were one tensor, and are no more."""
        before = self._ties()
        now = accounts.ties(self.subject.model) if before else ()
        return [sorted(names) for names in before if names not in now]

    def _ties(self) -> list[frozenset[str]]:
        if not hasattr(self, "_first_ties"):
            self._first_ties = accounts.ties(self.subject.model)
        return self._first_ties

    def open(self) -> None:
        self._ties()
        self._copies, alike = [], []
        for source, target, *two in accounts.parted(self.subject.model):
            one, other = (samples.sample(samples.local(each)) for each in two)
            if one is not None and other is not None and one.shape == other.shape:
                self._copies.append([source, target])
                alike.append((one == other).all())
        self._alike = torch.stack(alike) if alike else None

    def close(self) -> None:
        self._places: dict[Key, list[int]] = {}
        self._views: dict[int, torch.Tensor] = {}
        self._old: dict[Key, torch.Tensor] = {}
        self._gradients: dict[Key, torch.Tensor] = {}
        self._rows: list[tuple[list[int], torch.Tensor, torch.Tensor]] = []
        self._missing: list[int] = []
        self._rates: list[Any] = []
        self._peaks: list[Any] = []
        self._held: dict[int, int] = {}
        self._infinite: Any = None
        self._copies: list[list[str]] = []
        self._alike: torch.Tensor | None = None


def _hooked(optimizer: Any) -> bool:
    """Whether somebody else is called at its steps, who may write weights there (an average)."""
    names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    every = [hook for name in names for hook in getattr(optimizer, name, {}).values()]
    owners = (getattr(getattr(hook, "__self__", hook), "__module__", "") for hook in every)
    return any(not str(owner).startswith(("vlmguard", "torch", "accelerate")) for owner in owners)


def _table(views: list[torch.Tensor]) -> torch.Tensor:
    """A row a tensor, filled up with zeros."""
    empty = torch.zeros(samples.COUNT, dtype=views[0].dtype, device=views[0].device)
    parts: list[torch.Tensor] = []
    for view in views:
        parts.append(view)
        if view.numel() < samples.COUNT:
            parts.append(empty[: samples.COUNT - view.numel()])
    return torch.cat(parts).view(len(views), samples.COUNT)
