"""Watches one model and one optimizer: opens and ends windows, asks readers, has pages judged.

A window goes from one step of the optimizer to the next. The optimizer owns its watcher; the
watcher holds neither model nor optimizer while no window is watched.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from vlmguard.ledger.account import Account, Page
from vlmguard.ledger.between_ranks import window_requests
from vlmguard.ledger.between_ranks.gather import Gather
from vlmguard.ledger.when import When
from vlmguard.runtime.faults import contain
from vlmguard_torch import stepping
from vlmguard_torch.ledger.accounts import account_of
from vlmguard_torch.ledger.later import as_json
from vlmguard_torch.ledger.pages import OnVerdicts, Pages
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.ledger.recipe import Recipe, Weakly
from vlmguard_torch.media.kinds import kinds_of
from vlmguard_torch.module_calls import ForwardHook

__all__ = ["Watcher", "account_of", "as_json"]

CLOSURE = "the optimizer's step runs the backward itself"
FAULT = "a fault of vlmguard's"
LEFT_OUT = 3
"""Steps in a row that are left out, without a loss scale to be found, before it is said."""
SAVES = 20
"""Checkpoints after which a window is watched."""
_every: weakref.WeakSet[Watcher] = weakref.WeakSet()
_OWNS = "_vlmguard_ledger"
"""Where an optimizer without hooks (DeepSpeed's) keeps its watcher."""


def everyone() -> list[Watcher]:
    """The watchers of this process that still watch."""
    return [each for each in list(_every) if not each.closed]


def of(optimizer: Any) -> list[Watcher]:
    """The watchers of an optimizer."""
    return [each for each in everyone() if each.optimizer() is optimizer]


class Watcher:
    """Follows the windows of one optimizer.

    Args:
        subject: what is watched. Its objects are held while a window is watched, not longer.
        readers: one class a station, made anew for each run of windows that are watched.
        on_page: gets every page of this rank, with lists in the place of tensors.
        windows: how many are watched at the beginning, and none later, if not as ``when`` says.
        when: which windows are watched.
        on_verdicts: gets ``(step, verdicts)`` of each window, on the rank that judges. The first
            step is 1.
        gather: brings pages of all ranks together; without it this process is the only rank.
        first_step: steps of the run before the first window.
        rank: this rank's number, as pages tell it.
        whole: whether no forward of the first step has been made; else it is not watched.

    Attributes:
        on_close: called behind the last window.
    """

    def __init__(
        self,
        subject: Subject,
        readers: Sequence[type[Reader]],
        on_page: Callable[[Page], None] | None = None,
        windows: int | None = None,
        *,
        when: When | None = None,
        on_verdicts: OnVerdicts | None = None,
        gather: Gather | None = None,
        first_step: int = 0,
        rank: int = 0,
        whole: bool = True,
    ) -> None:
        self.when = when or (When() if windows is None else When("first", windows, 0))
        self.gather = gather or Gather(lambda: None, 0, 1)
        self.books = Pages(subject.account, [each.name for each in readers], self.gather)
        self.books.on_page, self.books.on_verdicts = on_page, on_verdicts
        self.first_step, self.rank = first_step, rank
        self.window = self.skipped = 0
        self.closed = False
        self.on_close: Callable[[], None] | None = None
        self._late = 0 if whole else 1
        self._saves, self._asked = 0, False
        self._kinds: dict[str, None] = {}
        self._micro, self._closure = 0, False
        self._quiet: float = 0  # no window before this one is opened for its number
        self._classes = tuple(readers)
        self._recipe = Recipe(subject)
        self._readers: list[Reader] = []
        self._open = False
        self._handles: list[Any] = []
        self._forwards: Any = None
        self._begin(subject)

    def _begin(self, subject: Subject) -> None:
        _every.add(self)
        if subject.engine is None:
            self._handles = [
                subject.optimizer.register_step_pre_hook(self.before),
                subject.optimizer.register_step_post_hook(self.after),
            ]
        else:
            setattr(subject.optimizer, _OWNS, self)
        self._listen(subject.model)
        contain("the ledger", self._next)
        self._recipe.forget()

    def _listen(self, model: Any) -> None:
        """Before hooks that put embeddings in the place of token ids, as ms-swift's does."""
        if self._forwards is None:
            self._forwards = ForwardHook("the ledger", Weakly(self.forward)).on(model)
            model._forward_pre_hooks.move_to_end(self._forwards.id, last=False)

    @property
    def account(self) -> Account:
        """As it was in the window that was judged last."""
        return self.books.account

    @property
    def pages(self) -> Sequence[Page | None]:
        """Those of the window that was judged last."""
        return self.books.pages

    @property
    def on_verdicts(self) -> OnVerdicts | None:
        """Gets ``(step, verdicts)`` of each window."""
        return self.books.on_verdicts

    @on_verdicts.setter
    def on_verdicts(self, call: OnVerdicts | None) -> None:
        self.books.on_verdicts = call

    def recall(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        """What stations are to know of an earlier part of the run."""
        self.books.recall(known)

    def optimizer(self) -> Any:
        """The one that it watches, None once it is gone."""
        return self._recipe.optimizer()

    def model(self) -> Any:
        """The same of its model."""
        return self._recipe.model()

    # Windows

    def _next(self) -> None:
        """A window begins."""
        self._micro, self._closure = 0, False
        self._kinds.clear()
        self._quiet = 0
        number = self.window - self._late
        if number >= 0 and (self._asked or self.when.due(number)):
            self._asked = False
            self._start(True)
            return
        if self.gather.wishes.due(self.window):
            self._start(False)
            return
        self._drop_readers()
        if self._forwards is not None and number >= 0 and not self._curious():
            self._forwards.remove()
            self._forwards = None
        if not self.books.idle():
            return
        if self.when.ended(number):
            self.close(0.0)
        elif self.gather.world == 1 and number >= 0:
            self._quiet = self.when.after(number) + self._late

    def _drop_readers(self) -> None:
        """Hold nothing of the model. Readers stand in circles with their hooks, which only a
        garbage collection would find."""
        for reader in self._readers:
            vars(reader).clear()
        self._readers.clear()

    def _curious(self) -> bool:
        """Whether a new kind of row may still have a window watched."""
        in_time = self.gather.world == 1 or self.window < window_requests.LAST
        return self.window >= self._late and in_time and self.when.curious()

    def _new_kind(self, kinds: Sequence[str]) -> bool:
        """A window begins with rows of ``kinds``: whether this rank watches it because of them. Of
        several ranks none does: all watch a later one."""
        wishes = self.gather.wishes
        alone = self.gather.world == 1
        if not alone and wishes.waiting(self.window):
            return False
        new = self.when.new(kinds)
        if new and not alone:
            wishes.wish(self.window)
        return new and alone

    def saves(self) -> None:
        """A checkpoint is written, on all ranks: the window that begins now is watched."""
        self._saves += 1
        if self._saves <= SAVES and not self._open and not self.closed:
            self._asked, self._quiet = True, 0
            if self._micro == 0:
                self._next()

    def _start(self, together: bool) -> None:
        if not self._readers:
            subject = self._recipe.subject()
            if subject is None:
                return self.close(0.0)
            self._readers = [kind(subject) for kind in self._classes]
            self.books.begin(self.window, subject.account)
        self._listen(self._recipe.model())
        self._open = True
        for reader in self._readers:
            reader.together = together
            reader.agree = functools.partial(self.gather.agree, self.window)
        self._each("open")

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """The model's forward is about to run."""
        if self._micro and not self._open:
            return  # later rows of a window tell nothing new
        if not (torch.is_grad_enabled() and module.training):
            return
        first, self._micro = self._micro == 0, self._micro + 1
        if not self._open and not (first and self._curious()):
            return
        given = args[0] if args and isinstance(args[0], Mapping) else kwargs
        kinds = ["+".join(kinds_of(given))]
        if not self._open:
            if not self._new_kind(kinds):
                return
            self._start(True)
        self._kinds.update(dict.fromkeys(kinds))
        self._each("batch", given)

    def before(self, optimizer: Any = None, args: Any = (), kwargs: Any = None) -> None:
        """The optimizer is about to step. A closure's own forward may open a window."""
        self._closure = stepping.has_closure(args, kwargs or {})
        if self._open:
            contain("the ledger", self._before)

    def _before(self) -> None:
        contain("the ledger", self.books.advance)
        if not self._closure:
            self._each("before")

    def after(self, optimizer: Any = None, args: Any = (), kwargs: Any = None) -> None:
        """The optimizer has stepped: the window is over."""
        if self.closed:
            return
        if self.window + 1 < self._quiet and not self._open:
            self.window, self._micro = self.window + 1, 0
            return
        contain("the ledger", self._over)

    def _over(self) -> None:
        if self._open:
            if not self._closure:
                self._each("after")
            contain("the ledger", self._end)
            self._each("close")
            self._open = False
        if self.gather.world > 1:
            contain("the ledger", self.gather.wishes.look, self.window)
        self.window += 1
        contain("the ledger", self._hand_on)
        contain("the ledger", self._next)

    def _hand_on(self) -> None:
        if not self.books.idle():
            self.books.advance()
            self.books.step()

    def skip(self, meant: bool = True) -> None:
        """A step was left out (an overflow): the window goes on, from its beginning.

        Args:
            meant: whether a loss scale is still being found.
        """
        self.skipped += 1
        if self.skipped == LEFT_OUT and not meant and self.gather.place == 0:
            self.books.left_out(self.first_step + self.window + 1, LEFT_OUT)
        if self._open:
            self._each("close")
            self._each("open")

    def _end(self) -> None:
        page: dict[str, Any] = {
            "window": self.window,
            "step": self.first_step + self.window + 1,
            "rank": self.rank,
            "micro": self._micro,
            "kinds": list(self._kinds),
            "skipped": self.skipped,
            "unread": {},
        }
        for reader in self._readers:
            found = CLOSURE if self._closure else self._call(reader, "page")
            if isinstance(found, Mapping):
                page[reader.name] = found
            else:
                page["unread"][reader.name] = found or FAULT
        self.skipped = 0
        self.when.saw(self._kinds)
        self.books.add(self.window, page)

    def _each(self, what: str, *args: Any) -> None:
        for reader in self._readers:
            self._call(reader, what, *args)

    def _call(self, reader: Reader, what: str, *args: Any) -> Any:
        return contain(f"the ledger's {reader.name}", getattr(reader, what), *args)

    def close(self, wait: float = 2.0) -> None:
        """Take every hook off, and have judged what is there. The judging rank waits a little for
        pages that are still to come."""
        if self.closed:
            return
        self.closed = True
        if self._open:
            self._each("close")
        self._open = False
        self._drop_readers()
        for handle in [*self._handles, self._forwards]:
            if handle is not None:
                handle.remove()
        self._handles.clear()
        self._forwards = None
        try:
            contain("the ledger", self.books.rest, wait)
        finally:  # it may stop the run
            self.gather.close()
            if self.on_close is not None:
                contain("the ledger", self.on_close)
