"""Watches one model and one optimizer: opens and ends windows, asks readers, hands pages on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from vlmguard.ledger.account import Account, Page, Tensor
from vlmguard.runtime.faults import contain
from vlmguard_torch.layout import towers
from vlmguard_torch.ledger.reader import Reader, Subject


def account_of(model: Any, optimizer: Any, world: int = 1, strategy: str = "") -> Account:
    """The account of a model and the optimizer that moves it."""
    paths, held = towers.by_name(model), _groups(optimizer)
    tensors = tuple(
        Tensor(
            towers.plain(name),
            towers.kind_of(towers.plain(name), paths),
            p.numel(),
            str(p.dtype).removeprefix("torch."),
            p.requires_grad,
            held.get(id(p)),
        )
        for name, p in model.named_parameters()
    )
    return Account(tensors, world, strategy)


def _groups(optimizer: Any) -> dict[int, int]:
    groups = getattr(optimizer, "param_groups", ())
    return {id(p): number for number, group in enumerate(groups) for p in group["params"]}


class Watcher:
    """Follows the windows of one optimizer of torch's. A sketch: DeepSpeed's engine, the exchange
    between ranks, copies that do not wait and the choice of windows come in its place."""

    def __init__(
        self,
        subject: Subject,
        readers: Sequence[type[Reader]],
        on_page: Callable[[Page], None],
        windows: int = 3,
    ) -> None:
        self.subject, self.on_page, self.left = subject, on_page, windows
        self._readers = [kind(subject) for kind in readers]
        self._window = self._micro = 0
        self._handles = [
            subject.model.register_forward_pre_hook(self._forward, with_kwargs=True),
            subject.optimizer.register_step_pre_hook(lambda *_: self._each("before")),
            subject.optimizer.register_step_post_hook(lambda *_: self._end()),
        ]
        self._each("open")

    def _each(self, what: str, *args: Any) -> None:
        for reader in self._readers:
            contain(f"the ledger's {reader.name}", getattr(reader, what), *args)

    def _forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.is_grad_enabled() and module.training:
            self._micro += 1
            self._each("batch", kwargs)

    def _end(self) -> None:
        self._each("after")
        page: dict[str, Any] = {"window": self._window, "step": self._window, "rank": 0}
        page |= {"micro": self._micro, "kinds": (), "unread": {}}
        for reader in self._readers:
            found = contain(f"the ledger's {reader.name}", reader.page)
            if isinstance(found, Mapping):
                page[reader.name] = as_json(found)
            else:
                page["unread"][reader.name] = found or "a fault of vlmguard's"
        self._each("close")
        self.on_page(page)
        self._window, self._micro, self.left = self._window + 1, 0, self.left - 1
        if self.left > 0:
            self._each("open")
        else:
            self.close()

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def as_json(found: Any) -> Any:
    """Tensors as lists of numbers."""
    if isinstance(found, torch.Tensor):
        return found.tolist()
    if isinstance(found, Mapping):
        return {key: as_json(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [as_json(value) for value in found]
    return found
