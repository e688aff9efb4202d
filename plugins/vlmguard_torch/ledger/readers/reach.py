"""Reads station reach: which tensors got a gradient in a window, and what their modules did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from vlmguard_torch.layout import towers
from vlmguard_torch.layout.towers import modules
from vlmguard_torch.ledger.gradients.leaves import leaves_of
from vlmguard_torch.ledger.gradients.unreadable import why_no_leaves
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.watch.tower_forwards import TowerForwards


class Reach(Reader):
    """Towers are watched in every window; a module of which a tensor got no gradient, in the
    windows after."""

    name = "reach"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._why_not = why_no_leaves(subject)
        self._leaves = leaves_of(subject)
        self._paths = towers.by_name(subject.model)
        self._named = modules(subject.model)
        self._towers: TowerForwards | None = None
        self._missed: tuple[int, ...] = ()

    def open(self) -> None:
        if self._why_not:
            return
        self._leaves.open()
        self._owners = {n: self._owner(n) for n in self._missed}
        watched = [path for path in self._owners.values() if path]
        watched += [path for paths in self._paths.values() for path in paths]
        self._towers = TowerForwards(self.subject.model, self._named, dict.fromkeys(watched))

    def _owner(self, n: int) -> str:
        """The module that holds it, if it holds nothing but tensors: then it uses them all."""
        path = self.subject.account.tensors[n].name.rpartition(".")[0]
        module = self._named.get(path)
        alone = module is not None and not any(True for _ in module.children())
        called = alone and type(module).forward is not torch.nn.Module.forward
        return path if called else ""

    def before(self) -> None:
        self._leaves.before()

    def after(self) -> None:
        self._leaves.after()

    def page(self) -> Mapping[str, Any] | str:
        if self._why_not or self._towers is None:
            return self._why_not or "no window was opened"
        leaves, notes = self._leaves, self._towers.notes
        index = [n for n in leaves.index if self.subject.parameters[n].requires_grad]
        self._missed = tuple(n for n in index if not leaves.parts[n])
        return {
            "index": index,
            "parts": [leaves.parts[n] for n in index],
            "towers": {kind: _notes(notes, paths) for kind, paths in self._paths.items()},
            "owners": [[n, _notes(notes, [path])] for n, path in self._owners.items() if path],
            "eval": sorted(self._in_eval()),
        }

    def _in_eval(self) -> set[str]:
        """Kinds of towers with a module that is not in training mode."""
        found = set()
        for name, module in self._named.items():
            if not module.training:
                found.add(towers.kind_of(name, self._paths))
        return found

    def close(self) -> None:
        self._leaves.close()
        if self._towers is not None:
            self._towers.close()
        self._towers = None


def _notes(notes: Mapping[str, set[str]], paths: Iterable[str]) -> list[str]:
    return sorted({note for path in paths for note in notes.get(path, ())})
