"""A model's parameters as facts: counted by tower, found by the words of a freeze policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from vlmguard.core.facts import Tower
from vlmguard_torch.layout.towers import kind_of, plain

_ADAPTER = (".lora_", ".modules_to_save.", ".adapter", ".boft_", ".vera_", ".ia3_", ".hada_")


class Parameters:
    """A model's parameters, walked over once: to be asked as the model is."""

    def __init__(self, model: Any) -> None:
        self._named = tuple(model.named_parameters(remove_duplicate=False))

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Each with its first name, or with all of its names."""
        known: set[int] = set()
        for name, parameter in self._named:
            if not remove_duplicate or id(parameter) not in known:
                known.add(id(parameter))
                yield name, parameter


def towers(
    model: Any,
    paths: Mapping[str, tuple[str, ...]],
    checkpointed: Callable[[str], bool],
    input_grads: Callable[[str], bool | None] = lambda kind: None,
) -> tuple[Tower, ...]:
    """Count parameter tensors per tower."""
    counts: dict[str, list[int]] = {}
    for name, parameter in model.named_parameters():
        count = counts.setdefault(kind_of(plain(name), paths), [0, 0, 0])
        count[0] += 1
        if parameter.requires_grad:
            count[1] += 1
            count[2] += any(mark in name for mark in _ADAPTER)
    return tuple(
        Tower(kind, paths.get(kind, ()), *count, checkpointed(kind), input_grads(kind))
        for kind, count in counts.items()
    )


def shares_blocks(model: Any) -> bool:
    """Whether one trainable weight sits in two numbered blocks (tied layers)."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and any(part.isdigit() for part in name.split(".")):
            names.setdefault(id(parameter), set()).add(name)
    return any(len(found) > 1 for found in names.values())


def matching(
    model: Any, wish: Iterable[str], paths: Mapping[str, tuple[str, ...]]
) -> dict[str, list[tuple[str, Any]]]:
    """Word of the wish → (name, parameter) pairs it names: a tower, a module path or a glob."""
    found: dict[str, list[tuple[str, Any]]] = {word: [] for word in wish}
    for name, parameter in model.named_parameters():
        bare = plain(name)
        kind = kind_of(bare, paths)
        for word, pairs in found.items():
            if word == kind or bare.startswith(word + ".") or fnmatchcase(bare, word):
                pairs.append((bare, parameter))
    return found
