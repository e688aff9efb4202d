"""Which parameter of the tiny copy stands for which of the user's model.

Walked from the root of both, side by side. Where a stack was cut, a layer cut off is stood for by
the kept layers of its build before and behind it: two answers, and if they differ, none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from vlmguard_torch.observe.stacks import Stack

_OURS_INSIDE = ("base_layer", "original_module", "modules_to_save", "default")
"""What PEFT puts between a module and its name; the module is still the one the class made."""


class NoCounterpart(ValueError):
    """The user's model and the copy of it are built differently."""


def modules(
    model: torch.nn.Module, copy: torch.nn.Module, stacks: Sequence[Stack] = ()
) -> dict[str, tuple[str, ...]]:
    """Paths of the user's modules, each with the paths in the copy that stand for it: one, or two
    for a layer cut off. A part that PEFT put into a module is stood for by that module; one that
    the copy lacks altogether, by none.

    Raises NoCounterpart where a layer and the one that stands for it differ in build.
    """
    found: dict[str, tuple[str, ...]] = {}
    _walk(model, copy, "", "", stacks, found)
    return found


def _walk(
    user: torch.nn.Module,
    copy: torch.nn.Module,
    path: str,
    at: str,
    stacks: Sequence[Stack],
    found: dict[str, tuple[str, ...]],
) -> None:
    found[path] = (*found.get(path, ()), at)
    stands = _stands_for(user, copy, path, stacks)
    for name, child in user.named_children():
        below = f"{path}.{name}" if path else name
        for other in stands.get(name, ()):
            _walk(
                child,
                copy.get_submodule(other),
                below,
                f"{at}.{other}" if at else other,
                stacks,
                found,
            )
        if name in stands:
            continue
        if (
            name in _OURS_INSIDE
            or name.startswith("lora_")
            or path.rpartition(".")[2] in _OURS_INSIDE
        ):
            _walk(child, copy, below, at, (), found)
        else:
            found.update(
                {below + ("." + deep if deep else ""): () for deep, _ in child.named_modules()}
            )


def _stands_for(
    user: torch.nn.Module, copy: torch.nn.Module, path: str, stacks: Sequence[Stack]
) -> dict[str, tuple[str, ...]]:
    """Names of the user's children, each with those of the copy's that stand for it."""
    mine, tiny = dict(user.named_children()), dict(copy.named_children())
    if not isinstance(user, torch.nn.ModuleList) or len(mine) == len(tiny):
        return {name: (name,) for name in mine if name in tiny}
    builds = [build(child) for child in mine.values()]
    kept = next((s.kept for s in stacks if (s.total, len(s.kept)) == (len(mine), len(tiny))), None)
    if kept is None:
        if tiny and len({*builds, *map(build, tiny.values())}) == 1:  # experts are all alike
            return dict.fromkeys(mine, ("0",))
        raise NoCounterpart(f"{path} has {len(mine)} layers, its copy {len(tiny)}")
    for number, layer in enumerate(kept):
        if build(tiny[str(number)]) != builds[layer]:
            raise NoCounterpart(f"{path}.{layer} is built differently from its copy")
    return {str(layer): _nearest(layer, kept, builds) for layer in range(len(mine))}


def _nearest(layer: int, kept: Sequence[int], builds: Sequence[Any]) -> tuple[str, ...]:
    if layer in kept:
        return (str(kept.index(layer)),)
    alike = [other for other in kept if builds[other] == builds[layer]]
    before, behind = (
        [other for other in alike if other < layer][-1:],
        [o for o in alike if o > layer][:1],
    )
    return tuple(str(kept.index(other)) for other in (*before, *behind))


def build(module: torch.nn.Module) -> tuple[tuple[str, str], ...]:
    """Paths and classes inside a module: alike for layers of one kind, whatever their widths.
    PEFT's parts are not in it, nor the numbers of experts."""
    found = [
        (_plain(path), type(part).__qualname__)
        for path, part in module.named_modules()
        if not _peft(path) and not hasattr(part, "base_layer")
    ]
    return tuple(dict.fromkeys(found))


def _peft(path: str) -> bool:
    return any(
        part in ("modules_to_save", "default") or part.startswith("lora_")
        for part in path.split(".")
    )


def _plain(path: str) -> str:
    parts = [part for part in path.split(".") if part not in _OURS_INSIDE]
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "#", ".".join(parts))


def parameters(
    names: Iterable[str], found: Mapping[str, tuple[str, ...]], copy: torch.nn.Module
) -> dict[str, tuple[str, ...]]:
    """The user's parameters, each with those of the copy that stand for it; a LoRA weight is stood
    for by the weights of the module it changes."""
    tiny = {name for name, _ in copy.named_parameters(remove_duplicate=False)}
    beside: dict[str, list[str]] = {}
    for own in sorted(tiny):
        beside.setdefault(own.rpartition(".")[0], []).append(own)
    stands: dict[str, tuple[str, ...]] = {}
    for name in names:
        path, _, leaf = name.rpartition(".")
        some: list[str] = []
        for at in found.get(path, ()):
            exact = f"{at}.{leaf}" if at else leaf
            some += [exact] if exact in tiny else beside.get(at, [])
        stands[name] = tuple(some)
    return stands


def cover(chosen: Iterable[str], everything: Iterable[str]) -> tuple[str, ...]:
    """The fewest paths under which lie all the chosen names and no other of everything."""
    wanted, others = set(chosen), set()
    for name in set(everything) - wanted:
        others |= set(_above(name))
    found = {next((path for path in _above(name) if path not in others), name) for name in wanted}
    return tuple(sorted(found, key=_by_number))


def _above(name: str) -> list[str]:
    """The paths that a name lies under, outermost first, and itself."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _by_number(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.split(".")]
