"""What a watcher knows of its subject between the windows that it watches."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from vlmguard.ledger.account import Account
from vlmguard_torch.ledger.accounts import account_of, groups
from vlmguard_torch.ledger.reader import Subject


class Recipe:
    """What a subject is made of, held weakly; made anew when windows begin to be watched."""

    def __init__(self, subject: Subject) -> None:
        self._first: Subject | None = subject
        self.model = weakref.ref(subject.model)
        self.optimizer = weakref.ref(subject.optimizer)
        self._engine = weakref.ref(subject.engine) if subject.engine is not None else None
        self._rest = {"group": subject.group, "tokenizer": subject.tokenizer}
        self._extra, self._account = subject.extra, subject.account
        self._state: list[Any] = []

    def forget(self) -> None:
        """Hold nothing from now on."""
        self._first = None

    def subject(self) -> Subject | None:
        """None once the model or the optimizer is gone."""
        first, self._first = self._first, None
        if first is not None:
            return first
        model, optimizer = self.model(), self.optimizer()
        engine = self._engine() if self._engine is not None else None
        if model is None or optimizer is None:
            return None
        parameters = tuple(model.parameters())
        account = self._account_now(model, optimizer, parameters)
        return Subject(
            model, optimizer, parameters, account, engine=engine, extra=self._extra, **self._rest
        )

    def _account_now(self, model: Any, optimizer: Any, parameters: tuple[Any, ...]) -> Account:
        """The one that was read last, if the tensors are the same and held as they were."""
        held = groups(optimizer)
        state = [(id(p), p.requires_grad, str(p.dtype), held.get(id(p))) for p in parameters]
        if state != self._state:
            old = self._account
            account = account_of(model, optimizer, old.world, old.strategy)
            self._account, self._state = replace(account, text=old.text), state
        return self._account


class Weakly:
    """A method of an object, called while that lives."""

    def __init__(self, method: Any) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, *args: Any) -> None:
        method = self._method()
        if method is not None:
            method(*args)
