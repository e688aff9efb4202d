"""Which of an optimizer's parameters get a gradient, without reading a tensor or waiting for a
device.

A window goes from one step of the optimizer to the next, and is watched as a whole. What counts is
whether a gradient was made in it, not whether one is there at the step: users drop gradients, take
them away and give them back. In its first window a tower's parameters are looked at once, at the
step (3 ms for 10,000; a hook on each, 40 and more); those that had none then get a hook in the
next. Under ZeRO and Gemini, which take gradients away, all have one from the start.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import compress, repeat
from operator import attrgetter, is_
from typing import Any

from vlmguard.core.facts import Gradients, Wiring
from vlmguard_torch.layout.towers import kind_of, modules, plain
from vlmguard_torch.module_calls import Hooked
from vlmguard_torch.watch.tower_forwards import TowerForwards

AGREE = 8
"""Windows in a row that have to say the same of a tower before anything is said: a user may drop
features, or skip batches, at random."""
INSIDE = 2
"""The same, if the gradient is cut, and in the last window all modules inside the tower ran with
gradients switched off."""
LIMIT = 24
"""Windows in which a tower ran, after which it is watched no longer, whatever they said."""
_TOLD: frozenset[Wiring] = frozenset({"cut", "no_grad", "dropped"})
_GRAD = attrgetter("grad")
Named = list[tuple[str, Any]]
"""Plain names with their parameters."""


class _Tower(Hooked):
    """One kind of tower, as far as one optimizer holds it."""

    def __init__(self, forwards: TowerForwards, every: Named, stays: bool, fails: bool) -> None:
        self.forwards, self.every, self.stays, self.fails = forwards, every, stays, fails
        self.watched: Named = []
        self.reached: set[str] = set()
        self.missed: set[str] | None = None  # without a gradient in the last trained window
        self.wiring: Wiring = "idle"
        self.agree = self.trained = self.looks = 0
        self.by_output = self.done = False
        self._handles: list[Any] = []

    def open(self) -> None:
        """A window begins: what trains is asked anew, callbacks freeze and unfreeze."""
        self.watched = [(name, p) for name, p in self.every if p.requires_grad]
        for name, p in self.watched:
            if not self.stays or (self.looks and p.grad is None and self._suspect(name)):
                self._hook(name, p)

    def _suspect(self, name: str) -> bool:
        return self.missed is None or name in self.missed

    def _hook(self, name: str, p: Any) -> None:
        # It runs in backward, where it must not fail: so it calls only the set's own method.
        mark = lambda _, add=self.reached.add, name=name: add(name)  # noqa: E731
        self._handles.append(p.register_post_accumulate_grad_hook(mark))

    def left(self) -> tuple[list[str], list[str]]:
        """The window is over: names of what trains, and of what no gradient was seen for."""
        maybe = self.watched
        if self.stays:
            none = list(map(is_, map(_GRAD, (p for _, p in maybe)), repeat(None)))
            maybe = list(compress(maybe, none))
        left = [name for name, p in maybe if p.requires_grad and not self._made(name, p)]
        return [name for name, p in self.watched if p.requires_grad], left

    def _made(self, name: str, p: Any) -> bool:
        # An optimizer that steps in backward has used the gradient already.
        return name in self.reached or hasattr(p, "_in_backward_optimizers")

    def judge(
        self, names: list[str], left: list[str], anything: Callable[[], bool]
    ) -> tuple[Wiring | None, set[str]]:
        """What this window and those before it agree on: why none of it trains, or which of its
        parameters two windows missed that trained others. ``anything``: whether this window
        trained any parameter."""
        self.looks += 1
        self.done = self.looks >= LIMIT
        if len(left) < len(names):
            self.by_output |= self.forwards.fed
            self.trained += 1
            again = (self.missed or set()).intersection(left)
            self.missed = set(left)
            self.done |= self.trained >= 2 or not left
            return None, again
        wiring = self.forwards.wiring(self._paths(names))
        if self.trained or wiring not in _TOLD or not self.forwards.used:
            return None, set()
        self.agree = self.agree + 1 if wiring == self.wiring else 1
        self.wiring = wiring
        if (enough := self._enough(wiring, anything)) == 1:
            self.agree = 1
        said = self.agree >= enough
        self.forwards.ask(names)
        self.done |= said
        return (self._named(wiring) if said else None), set()

    def _named(self, wiring: Wiring) -> Wiring:
        """What is certain of every step has another name than what may be for the first ones."""
        if wiring != "cut" or self.forwards.always_off:
            return wiring
        return "no_grad" if self.forwards.off else "detached"

    def _enough(self, wiring: Wiring, anything: Callable[[], bool]) -> int:
        """One window where the run ends anyway: others trained in it, and the gradient was not
        merely taken away."""
        certain = not self.stays or not self.forwards.fed
        if self.fails and wiring != "dropped" and certain and anything():
            return 1
        inside = wiring == "cut" and self.forwards.off and self.forwards.always_off
        return INSIDE if inside else AGREE

    def _paths(self, names: Iterable[str]) -> list[str]:
        """The modules that hold these parameters: of one that holds none nothing is expected."""
        paths = [f"{path}." for path in self.forwards.notes]
        return [path[:-1] for path in paths if any(name.startswith(path) for name in names)]

    def stale(self) -> bool:
        """Whether it trained before, through its output, and no gradient came to that now."""
        if not self.by_output or self.forwards.fed:
            return False
        return any(p.requires_grad for _, p in self.every)

    def unhook(self) -> None:
        """Take the parameters' hooks off; nothing of the window is kept."""
        self.close()
        self.reached = set()
        self.watched = []


class Watch:
    """The towers that one optimizer moves, from one of its steps to the next.

    It watches each until two windows have trained it, or said what is wrong, and then lets go.
    """

    def __init__(
        self,
        model: Any,
        paths: Mapping[str, tuple[str, ...]],
        holds: Container[int] | None = None,
        untrained: tuple[str, ...] = (),
        *,
        stays: bool = True,
        stale: bool = False,
        fails: bool = False,
        whole: bool = True,
        top: Any = None,
    ) -> None:
        """
        Args:
            model: what has parameters and modules in the words of ``paths``.
            paths: tower kind → module paths; without towers nothing is watched.
            holds: identities of the parameters that the optimizer holds; None for all.
            untrained: parts of names that this model family never trains.
            stays: whether a gradient is left at its parameter from backward to the optimizer.
            stale: whether to look, in every window, for towers that trained and no longer do.
            fails: whether a parameter without a gradient ends the run anyway (DDP that looks for
                no unused ones, Gemini): what is certain is then told at the first step.
            whole: whether the window that is open now is seen from its first forward on.
            top: the module itself, where ``model`` only reads it in other words.
        """
        self.untrained, self.whole, self._wants_stale = untrained, whole, stale
        self._holds, self._stays, self._any_done = holds, stays, False
        top = model if top is None else top
        self._model = weakref.ref(top)
        self.towers: dict[str, _Tower] = {}
        every: dict[str, Named] = {}
        for name, p in model.named_parameters():
            kind = kind_of(plain(name), paths)
            if kind in paths and (holds is None or id(p) in holds):
                every.setdefault(kind, []).append((plain(name), p))
        named = modules(model) if every else {}
        for kind, held in every.items():
            where = [path for path in paths[kind] if any(n.startswith(f"{path}.") for n, _ in held)]
            # A parameter in none of these modules (LLaVA-NeXT's newline) may wait for other rows.
            held = [(n, p) for n, p in held if any(n.startswith(f"{path}.") for path in where)]
            self.towers[kind] = _Tower(TowerForwards(top, named, where), held, stays, fails)
        self._open()

    def _open(self) -> None:
        for tower in self.towers.values():
            if not tower.done and (tower.forwards.ran or not tower.watched):
                tower.unhook()
                tower.open()
            tower.forwards.forget()

    def end(self) -> Gradients | None:
        """The optimizer steps, or has stepped: a window is over and the next begins.

        None where no tower that is still watched ran in it, or it was not seen as a whole.
        """
        try:
            return self._judged() if self.whole else None
        finally:
            self.whole = True
            self._let_go()
            self._open()

    def _judged(self) -> Gradients | None:
        stale = [kind for kind, each in self.towers.items() if self._wants_stale and each.stale()]
        trainable: dict[str, int] = {}
        unreached: dict[str, tuple[str, ...]] = {}
        wirings: dict[str, Wiring] = {}
        steps: list[int] = []
        for kind, tower in self.towers.items():
            if tower.done or not (tower.forwards.ran or tower.reached):
                continue
            names, left = tower.left()
            if not names:
                continue
            trainable[kind] = len(names)
            wiring, again = tower.judge(names, left, self._trains)
            if again:
                unreached[kind] = tuple(name for name in left if name in again)
            if wiring is not None and self._still(tower):
                unreached[kind], wirings[kind] = tuple(left), wiring
                steps.append(tower.agree)
        if not trainable and not stale:
            return None
        design = [n for names in unreached.values() for n in names if self._never(n)]
        return Gradients(
            unreached,
            trainable,
            wirings,
            min(steps, default=1),
            by_design=tuple(design),
            stale=tuple(stale),
        )

    def _trains(self) -> bool:
        """Whether a parameter that the optimizer holds got a gradient in this window. Where
        gradients are taken away: whether a tower got one, or may have, since it is watched no
        longer."""
        if any(tower.reached for tower in self.towers.values()):
            return True
        if not self._stays:
            return self._any_done
        model, holds = self._model(), self._holds
        every = model.parameters() if model is not None else ()
        return any(p.grad is not None and (holds is None or id(p) in holds) for p in every)

    def _still(self, tower: _Tower) -> bool:
        """Whether its parameters are still the model's: users put others in their place."""
        model = self._model()
        now = {id(p) for p in model.parameters()} if model is not None else set()
        return all(id(p) in now for _, p in tower.watched)

    def _never(self, name: str) -> bool:
        return any(part in name for part in self.untrained)

    def _let_go(self) -> None:
        """Of the towers that are done."""
        for kind, tower in list(self.towers.items()):
            if tower.done:
                self._any_done = True
                tower.unhook()
                if not (self._wants_stale and tower.by_output):
                    tower.forwards.close()
                    del self.towers[kind]

    def close(self) -> None:
        """Take every hook off."""
        for tower in self.towers.values():
            tower.unhook()
            tower.forwards.close()
        self.towers.clear()
