"""Which layers of a deep stack the tiny copy keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stack:
    """Attributes:
    total: layers of the user's stack.
    kept: their numbers in the copy, ascending: layer ``kept[i]`` is layer ``i`` of the copy.
    """

    total: int
    kept: tuple[int, ...]


def keep(
    total: int, most: int, by_layer: Sequence[Sequence[Any]], named: Sequence[int]
) -> tuple[int, ...]:
    """The layers to keep: all of a shallow stack, else

    - the first three and the last three, since features are taken counting from either end;
    - every layer the config names, and its neighbours, which tell "up to here" from "after it";
    - the first and last of every kind that a list by layer (``layer_types``) tells apart.
    """
    if total <= most:
        return tuple(range(total))
    wanted = {*range(3), *range(total - 3, total)}
    for index in named:
        wanted |= {index - 1, index, index + 1}
    kinds = [tuple(repr(values[index]) for values in by_layer) for index in range(total)]
    for kind in dict.fromkeys(kinds):
        wanted |= {kinds.index(kind), total - 1 - kinds[::-1].index(kind)}
    return tuple(sorted(index for index in wanted if 0 <= index < total))
