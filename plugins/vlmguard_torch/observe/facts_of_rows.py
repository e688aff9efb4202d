"""From traces of the tiny copy to facts in names of the user's model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.observe.counterparts import cover
from vlmguard_torch.observe.observed import KindFacts
from vlmguard_torch.observe.row_trace import Trace
from vlmguard_torch.observe.stacks import Stack

LONGEST_ORDER = 200
_EXPERT = re.compile(r"(?<=\bexperts\.)\d+(?=\.)")


@dataclass(frozen=True)
class View:
    """The user's model seen through its copy.

    Attributes:
    part: path of the copied module in the user's model.
    stands: the user's parameters, each with those of the copy that stand for it.
    modules: the same of modules.
    traces: what each kind of row did in the copy.
    """

    part: str
    stands: Mapping[str, tuple[str, ...]]
    modules: Mapping[str, tuple[str, ...]]
    traces: Mapping[str, Trace]

    def whole(self, path: str) -> str:
        """A path below `part` as one of the whole model."""
        return ".".join(filter(None, (self.part, path)))

    def used(self, name: str, kind: str) -> bool | None:
        """Whether a row of this kind gives the user's parameter a gradient; None where nothing, or
        two that differ, stand for it. Of experts, one stands for all: which are chosen is chance.
        """
        answers = {_any_expert(at) in self._reached[kind] for at in self.stands[name]}
        return answers.pop() if len(answers) == 1 else None

    @cached_property
    def _reached(self) -> Mapping[str, frozenset[str]]:
        return {kind: frozenset(map(_any_expert, one.reached)) for kind, one in self.traces.items()}

    @cached_property
    def unsure(self) -> tuple[str, ...]:
        """What nothing answers for, in some kind."""
        return self._cover(
            n for n in self.stands if any(self.used(n, k) is None for k in self.traces)
        )

    def unused(self, *kinds: str) -> tuple[str, ...]:
        """What gets no gradient from any of these kinds."""
        return self._cover(n for n in self.stands if all(self.used(n, k) is False for k in kinds))

    def standing_for(self, names: frozenset[str]) -> tuple[str, ...]:
        """What all that stands for it is among these names of the copy."""
        return self._cover(n for n, stands in self.stands.items() if stands and names >= {*stands})

    def never(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What gets no gradient from any kind that ran, in two. First: what is called nevertheless,
        or lies in a stack with layers that are called. Second: what is not called at all; an input
        of a sort unknown here may yet call it."""
        names = [n for n in self.stands if all(self.used(n, k) is False for k in self.traces)]
        idle = {name for name in names if self._idle(name)}
        return self._cover(n for n in names if n not in idle), self._cover(
            n for n in names if n in idle
        )

    def _idle(self, name: str) -> bool:
        above = [".".join(name.split(".")[:end]) for end in range(1, name.count(".") + 1)]
        called = [path in self._called for path in above]
        if not above:
            return False
        if called[-1]:  # weights of the owner itself: idle if one of its parts is
            owner = above[-1] + "."
            return any(
                path.startswith(owner) and path not in self._called for path in self._with_weights
            )
        first = called[::-1].index(True) if True in called else len(called)
        outermost = above[len(above) - first :]  # those below the innermost called module
        stacks = [path for path in outermost if path.rpartition(".")[2].isdigit()]
        return not any(self._has_called_sibling(path) for path in stacks[:1])

    def _has_called_sibling(self, path: str) -> bool:
        stack = path.rpartition(".")[0]
        return any(other.rpartition(".")[0] == stack for other in self._called)

    @cached_property
    def _called(self) -> frozenset[str]:
        return frozenset(path for kind in self.traces for path, n in self.calls(kind).items() if n)

    def _cover(self, names: Iterator[str]) -> tuple[str, ...]:
        return tuple(self.whole(path) for path in cover(names, self.stands))

    def calls(self, kind: str) -> dict[str, int]:
        """How often each of the user's modules with parameters is called; two that stand for one
        and differ count as the lower."""
        counted = self.traces[kind].calls
        return {
            path: min(counted.get(at, 0) for at in stands)
            for path, stands in self.modules.items()
            if path and stands and path in self._with_weights
        }

    @cached_property
    def _with_weights(self) -> frozenset[str]:
        above = (name.split(".") for name in self.stands)
        return frozenset(".".join(parts[:end]) for parts in above for end in range(1, len(parts)))

    def cut(
        self, model: torch.nn.Module, copy: torch.nn.Module, stacks: Sequence[Stack]
    ) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """Path, layers and kept layers of every stack that is shorter in the copy."""
        found = []
        for path, part in model.named_modules():
            stands = self.modules.get(path)
            if not isinstance(part, torch.nn.ModuleList) or not stands:
                continue
            here = len(copy.get_submodule(stands[0]))  # type: ignore[arg-type]
            for stack in stacks:
                if here < len(part) and (stack.total, len(stack.kept)) == (len(part), here):
                    found.append((self.whole(path), stack.total, stack.kept))
                    break
        return tuple(found)


def _any_expert(name: str) -> str:
    return _EXPERT.sub("*", name)


def kind_facts(view: View, copy: Any, kind: str) -> KindFacts:
    """The facts of a kind that ran."""
    trace, calls = view.traces[kind], view.calls(kind)
    text = view.calls("text") if "text" in view.traces else calls
    towers = _outermost({path: 1 for path, n in calls.items() if n and not text.get(path)})
    repeats = _outermost({path: n for path, n in calls.items() if n > 1})
    order = [path for path in trace.order if not re.search(r"\.\d+(\.|$)", path)]
    return KindFacts(
        kind,
        unused=view.unused(kind),
        towers=tuple(map(view.whole, towers)),
        repeats=tuple((view.whole(path), calls[path]) for path in repeats),
        order=tuple(view.whole(path) for path in order[:LONGEST_ORDER]),
        towers_first=_first(trace, copy, [at for path in towers for at in view.modules[path]]),
    )


def _outermost(calls: Mapping[str, int]) -> tuple[str, ...]:
    """The paths that lie under none called as often."""
    return tuple(
        path
        for path in calls
        if all(
            calls.get(".".join(path.split(".")[:end])) != calls[path]
            for end in range(1, path.count(".") + 1)
        )
    )


def _first(trace: Trace, copy: Any, towers: Sequence[str]) -> bool | None:
    """Whether one of the towers is called before the input embeddings."""
    try:
        words = copy.get_input_embeddings()
    except (AttributeError, NotImplementedError):  # CLIP has two towers, and not one embedding
        return None
    at = next((path for path, part in copy.named_modules() if part is words), "")
    ran = [trace.order.index(path) for path in towers if path in trace.order]
    if not ran or at not in trace.order:
        return None
    return min(ran) < trace.order.index(at)


def per_item(view: View) -> tuple[str, ...]:
    """Modules that two images call more often than one."""
    if not {"image", "images"} <= set(view.traces):
        return ()
    one, two = view.calls("image"), view.calls("images")
    more = {path: n for path, n in two.items() if n > one[path] >= 1}
    return tuple(map(view.whole, _outermost(more)))


def skipped(view: View, model: torch.nn.Module) -> tuple[str, ...]:
    """What a text row passes over in a stack that it otherwise uses."""
    if "text" not in view.traces:
        return ()
    called = {path for path, n in view.calls("text").items() if n}
    stacks = {path for path, part in model.named_modules() if isinstance(part, torch.nn.ModuleList)}
    running = {path.rpartition(".")[0] for path in called} & stacks
    other = [kind for kind in view.traces if kind != "text"]
    names = (
        name
        for name in view.stands
        if view.used(name, "text") is False
        and any(view.used(name, kind) for kind in other)
        and any(name.startswith(path + ".") for path in running)
    )
    return tuple(view.whole(path) for path in cover(names, view.stands))


def shared(named: Parameters, part: str) -> tuple[tuple[str, ...], ...]:
    """The names of every weight that has several."""
    names: dict[int, list[str]] = {}
    for name, weight in named.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(".".join(filter(None, (part, name))))
    return tuple(tuple(group) for group in names.values() if len(group) > 1)
