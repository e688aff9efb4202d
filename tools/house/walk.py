"""Counts how a trainer that enters flows through our modules.

`Walk` is given to `sys.setprofile` while `lifecycle.begin` runs. It counts distinct edges between
our modules, as calls follow each other, and how often all parameters of the model are walked over.
What an import runs is left out.
"""

from __future__ import annotations

from collections import Counter
from types import FrameType
from typing import Any

OURS = "vlmguard"
BESIDE = ("vlmguard_imports", "vlmguard.ranks", "vlmguard._bootstrap")
"""What runs beside: the measuring's stand-ins and ranks, and the watcher of imports."""
WALKED = "named_parameters"
_RESUMED = 12
"""Instructions behind which a generator goes on: no call."""


class Walk:
    """One stay below the root.

    Attributes:
        edges: (module, module) → how often a call in the second came next after one in the first.
        calls: (module, module) → how often a function of the first called one of the second.
        walks: our function → how often it went through the parameters of the whole model.
    """

    def __init__(self, model: Any) -> None:
        self.whole, self.last, self.importing = _whole(model), "", 0
        self.edges: Counter[tuple[str, str]] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.walks: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_name == "<module>":
            self.importing += {"call": 1, "return": -1}.get(event, 0)
        if event != "call" or frame.f_lasti > _RESUMED or self.importing:
            return
        if frame.f_code.co_name == WALKED and id(frame.f_locals.get("self")) in self.whole:
            self.walks[":".join(_ours(frame.f_back))] += 1
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(OURS) or name.startswith(BESIDE):
            return
        if name != self.last:
            self.edges[self.last, name] += 1
            self.last = name
        caller, _function = _ours(frame.f_back)
        if caller != name:
            self.calls[caller, name] += 1

    def told(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "edges": len(self.edges),
            "edges between rules": sum(_of_rules(edge) for edge in self.edges),
            "calls": len(self.calls),
            "calls of rules": sum(_of_rules(edge) for edge in self.calls),
            "modules": len({module for edge in self.edges for module in edge if module}),
            "walks": sum(self.walks.values()),
            "walked by": dict(self.walks.most_common()),
            "listed": sorted(f"{one} → {two}" for one, two in self.edges),
        }


def _whole(model: Any) -> set[int]:
    """The model, and what it holds that has nearly all of its parameters."""
    sizes = {id(each): sum(1 for _ in each.parameters()) for each in model.modules()}
    return {each for each, size in sizes.items() if size > 0.9 * sizes[id(model)]}


def _of_rules(edge: tuple[str, str]) -> bool:
    return any(module.startswith("vlmguard.rules.") for module in edge)


def _ours(frame: FrameType | None) -> tuple[str, str]:
    """Module and name of the innermost of our functions from here on."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(OURS):
            return name, frame.f_code.co_name
        frame = frame.f_back
    return "", ""
