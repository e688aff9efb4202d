"""Whether all ranks call a module equally often that runs once per image, where each call gathers.

How many images the other ranks hold is not known before a forward. So each rank leaves marks in
the rendezvous store, and waits for nothing: before a second call that it makes one, and behind the
last call that it made no more. A rank writes its mark before it looks for the others'. So if two
ranks differ, at least one of them sees it before it waits, and stops. It takes two requests to the
store for a forward, and two more for each further image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from vlmguard import agree, guard
from vlmguard.core.facts import PARTITIONED
from vlmguard.core.runstate import RunState
from vlmguard.runtime import exchange, ranks
from vlmguard_torch.layout import gathered
from vlmguard_torch.layout.towers import plain
from vlmguard_torch.module_calls import ForwardHook, Hooked, in_backward
from vlmguard_torch.observe.observed import Observed, under
from vlmguard_transformers.model import observation

KEY = "abreast"
_KEPT = 4
"""Forwards whose marks stay in the store: ranks that gather are never further apart."""


class Abreast(Hooked):
    """Watches one model.

    Args:
        paths: modules that run once per image.
        behind: modules of which one is called next, before anything else is gathered; those of
            them without weights are left out.
    """

    def __init__(self, state: RunState, paths: Iterable[str], behind: Iterable[str]) -> None:
        self.state, self.paths, self.behind = state, tuple(paths), tuple(behind)
        self.steps = self.forwards = 0
        self.calls: dict[str, int] = {}
        self._old: deque[list[str]] = deque()
        self._left: list[str] = []
        self._handles: list[Any] = []

    def step(self, model: Any) -> None:
        """A training step begins; ``model`` is wrapped by now."""
        if not self.steps:
            self._attach(model)
        self.steps, self.forwards = self.steps + 1, 0
        self.calls.clear()

    def _attach(self, model: Any) -> None:
        named: dict[str, Any] = {}
        for name, module in model.named_modules():
            named.setdefault(plain(name), module)  # FSDP's wrapper, which gathers, comes first
        found = {path: named[path] for path in self.paths if path in named}
        watched = [path for path, each in found.items() if gathered.at_each_call(model, each)]
        # A module without weights gathers nothing: it may run once per image.
        behind = [n for n in self.behind if n in named and any(True for _ in named[n].parameters())]
        if not watched or not behind:
            return
        for path in watched:
            self._put(found[path], partial(self._called, path))
        for path in behind:
            self._put(named[path], self._settle)

    def _put(self, module: Any, look: Any) -> None:
        """In front of the hooks that gather."""
        handle = ForwardHook("comparing calls per image", look).on(module)
        module._forward_pre_hooks.move_to_end(handle.id, last=False)
        self._handles.append(handle)

    def _called(self, path: str, *_: Any) -> None:
        if in_backward():
            return  # checkpointing recomputes it
        number = self.calls[path] = self.calls.get(path, 0) + 1
        if number > 1:
            self._tell(f"{path}/{number}", f"{path}/{number - 1} and no more", path, number)

    def _settle(self, *_: Any) -> None:
        if not self.calls or in_backward():
            return
        for path, number in self.calls.items():
            self._tell(f"{path}/{number} and no more", f"{path}/{number + 1}", path, number)
        self.calls.clear()
        self.forwards += 1
        self._forget()

    def _tell(self, mine: str, other: str, path: str, number: int) -> None:
        ours = agree.token(self.state)
        where = f"{ours}/{self.steps}/{self.forwards}"
        if ours is None or not exchange.leave(f"{where}/{mine}", self.state.number):
            self.close()  # no store, or old marks: nothing is compared
            return
        self._left.append(f"{where}/{mine}")
        if exchange.left(f"{where}/{other}", self.state.number) and self.state.run is not None:
            from vlmguard.rules import vg113_per_image_tower as rule

            more = not other.endswith("no more")
            guard.judge([rule.parted(self.state.run, path, number, more)], self.state)

    def _forget(self) -> None:
        """All ranks left the same marks: one of them clears up."""
        self._old.append(self._left)
        self._left = []
        if len(self._old) > _KEPT:
            marks = self._old.popleft()
            if ranks.rank() == 0:
                exchange.forget(marks, self.state.number)


def start(trainer: Any, state: RunState) -> None:
    """Watch the run's model, where ranks can part."""
    run = state.run
    if run is None or run.world < 2 or run.strategy not in PARTITIONED or not run.per_image:
        return
    observed = observation.copy_of(trainer)
    if observed is None or not run.known("per_image"):
        return
    watch = state.kept[KEY] = Abreast(state, run.per_image, _behind(observed, run.per_image))
    state.at_close(watch.close)


def _behind(observed: Observed, paths: tuple[str, ...]) -> list[str]:
    """What rows with images call besides, but for what holds a path or lies in it."""
    kinds = [observed.of(kind) for kind in ("images", "image", "video")]
    called = [path for facts in kinds if facts is not None for path in facts.order]
    called += [f"{path}.0" for path, _, _ in observed.stacks]
    return [
        path
        for path in dict.fromkeys(called)
        if not under(path, paths) and not any(under(each, [path]) for each in paths)
    ]
