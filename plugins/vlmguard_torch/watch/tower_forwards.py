"""What towers did in a window of training: seen at their modules, not read from a batch's keys.

A hook behind each tower's forward notes whether it ran with gradients switched on, whether its
output needed a gradient, and, by a hook on that output, whether one came. It reads no tensor, keeps
none, and does nothing in a compiled model.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook

from vlmguard.core import wiring
from vlmguard.core.facts import Wiring
from vlmguard.core.wiring import BLIND, FROZEN, GOT, NEEDS, ODD, OFF
from vlmguard_torch.module_calls import Behind, Hooked, is_compiled
from vlmguard_torch.zero_contribution import tensors

_RUN = frozenset({"run_function", "forward_function"})


class TowerForwards(Hooked):
    """Forwards of the modules at ``paths``, noted until `forget`.

    Attributes:
        notes: path → what its forwards were, of the words above. Empty: it did not run.
        used: whether a module ran that holds one of the parameters that `ask` named; True before.
    """

    def __init__(self, model: Any, named: Mapping[str, Any], paths: Iterable[str]) -> None:
        """
        Args:
            named: `modules` of the model.
            paths: plain module paths; a list of modules stands for its members.
        """
        self.notes: dict[str, set[str]] = {}
        self.used, self._asked = True, False
        self._inside: set[bool] = set()  # since the last forward of a tower
        self._switched: set[bool] = set()
        self._blocks = False
        self._top, self._named = weakref.ref(model), weakref.WeakValueDictionary(named)
        self._handles: list[Any] = []
        for path in paths:
            if path in named and not _compiled(named, path):
                self.notes[path] = set()
                for module in _called(named[path]):
                    self._handles.append(Behind("watching a tower", self._looker(path)).on(module))

    def _looker(self, path: str) -> Any:
        return lambda module, output: self._look(path, module, output)

    def _look(self, path: str, module: Any, output: Any) -> None:
        notes = self.notes[path]
        inside, self._inside = self._inside, set()
        if torch.is_grad_enabled():  # it is no reference model and no evaluation
            self._switched |= inside
        if GOT in notes:
            return
        if not torch.is_grad_enabled():
            if module.training or getattr(self._top(), "training", True):  # no evaluation
                notes.add(NEEDS if _runs_again() else OFF)
            return
        found = list(tensors(output))
        needing = [each for each in found if each.requires_grad]
        if needing:
            notes.add(NEEDS)
            for each in needing:
                # It runs in backward, where it must not fail. It returns None. The wrapper keeps
                # torch from warning about a lost hook when the output is saved.
                each.register_hook(unserializable_hook(lambda _: notes.add(GOT)))
        elif not found:
            notes.add(ODD)
        else:
            trains = any(each.requires_grad for each in module.parameters())
            notes.add(BLIND if trains else FROZEN)

    def ask(self, names: Iterable[str]) -> None:
        """Look from now on whether these parameters are used at all: the part of a tower that
        trains may be for other rows (a temporal layer), or be dropped at random."""
        if self._asked:
            return
        self._asked = True
        for path in {_owner(self._named, name) for name in names}:
            use = self._use if path in self.notes else self._use_inside
            self._handles.append(Behind("watching a tower", use).on(self._named[path]))

    def _use(self, module: Any, output: Any) -> None:
        self.used = True

    def _use_inside(self, module: Any, output: Any) -> None:
        self.used = True
        if torch.is_grad_enabled() or not _runs_again():
            self._inside.add(torch.is_grad_enabled())
            self._blocks |= not torch.is_grad_enabled() and any(_checkpoints())

    @property
    def off(self) -> bool:
        """Whether modules ran inside a tower, of those that `ask` named a parameter of, and all
        with gradients switched off, though they were on around the tower."""
        return self._switched == {False}

    @property
    def always_off(self) -> bool:
        """Whether every step loses the gradient: reentrant checkpointing switches gradients off, or
        `torch.no_grad` decorates the forward of one of a tower's modules. A ``with`` or a
        ``detach`` inside a forward may be for the first steps alone, as a warm-up."""
        if self._blocks:
            return True
        towers = (module for path in self.notes for module in _called(self._named.get(path)))
        return any(_decorated(each) for tower in towers for each in tower.modules())

    @property
    def ran(self) -> bool:
        """Whether one of them ran."""
        return any(self.notes.values())

    @property
    def fed(self) -> bool:
        """Whether a gradient came to an output, or may have come unseen."""
        return any(notes & {GOT, ODD} for notes in self.notes.values())

    def forget(self) -> None:
        """A window is over. Hooks on its outputs may still come: to nobody."""
        self.used = not self._asked
        self._inside.clear()
        self._switched.clear()
        if self.ran:
            self.notes = {path: set() for path in self.notes}

    def wiring(self, paths: Iterable[str]) -> Wiring:
        """What the forwards of ``paths`` say about a tower that got no gradient at all."""
        told = {wiring.of(self.notes[path]) for path in paths if path in self.notes} - {"idle"}
        if not told:
            return "idle"
        return told.pop() if len(told) == 1 else "unknown"


def _runs_again() -> bool:
    """Whether reentrant checkpointing runs this forward without gradients, and will run it again if
    a gradient comes: one of its inputs needs one. torch's ``CheckpointFunction.forward`` and
    DeepSpeed's have arguments of these names, Unsloth's has ``forward_function`` and
    ``hidden_states`` [read: torch 2.13, deepspeed 0.19.8, LLaMA-Factory 0.9.5]. They may lie in
    each other."""
    return any(
        isinstance(x, torch.Tensor) and x.requires_grad
        for held in _checkpoints()
        for x in (*held.get("args", ()), held.get("hidden_states"))
    )


def _checkpoints() -> Iterator[Mapping[str, Any]]:
    """The variables of each reentrant checkpoint's forward that runs now."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and not _RUN.isdisjoint(code.co_varnames):
            yield frame.f_locals  # of this frame only: it keeps the frame\'s tensors alive
        frame = frame.f_back  # type: ignore[assignment]


def _owner(named: Mapping[str, Any], name: str) -> str:
    """Path of the module that is called with a parameter: a list of parameters never is."""
    path = name.rpartition(".")[0]
    while path and (path not in named or type(named[path]).forward is torch.nn.Module.forward):
        path = path.rpartition(".")[0]
    return path


def _called(module: Any) -> Iterable[Any]:
    """The module itself, or what a list of modules holds."""
    if type(module).forward is not torch.nn.Module.forward:
        return (module,)
    return [each for child in module.children() for each in _called(child)]


def _compiled(named: Mapping[str, Any], path: str) -> bool:
    """Whether it lies in a module that is compiled, or is one: hooks would be traced."""
    parts = path.split(".")
    around = [".".join(parts[:depth]) for depth in range(len(parts) + 1)]
    return any(is_compiled(named[each]) for each in around if each in named)


def _decorated(module: Any) -> bool:
    """torch calls what its context managers make of a function ``decorate_context``."""
    forward = getattr(module, "forward", None)
    code = getattr(getattr(forward, "__func__", forward), "__code__", None)
    return getattr(code, "co_name", "") == "decorate_context"
