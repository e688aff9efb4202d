"""Which layers of a deep stack the tiny copy keeps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_LAYERS = re.compile(
    r"(conf_)?num_hidden_layers|depth|num_layers|n_layers?|(vision_|text_)?layers"
    r"|num_(encoder|decoder|global)_layers|(encoder|decoder)_layers"
)
_INDEXES = re.compile(r"\w*(indexes|indices|idxs|layers|layer_ids?)")
"""Names of lists of layers."""
_COUNTED_BEFORE = ("first_k_dense_replace", "max_window_layers", "num_kv_shared_layers")
_BY_LAYER = "_heterogeneity_spec"
_TOWER = ("vision_", "mm_vision_")
_INDEX = (
    "vision_feature_layer", "feature_layer", "mm_vision_select_layer", "insert_layer_id",
    "spatial_vision_layer",
)  # fmt: skip


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


def cut(
    own: dict[str, Any],
    most: int,
    around: dict[str, Any] | None = None,
    beside: Sequence[dict[str, Any]] = (),
) -> list[Stack]:
    """Cut every stack of one config, given and changed as its ``__dict__``.

    Lists by layer follow the first stack, and so does what names layers of it: in the config
    itself, in `around`, the config that holds a vision tower's, and in those `beside` the tower's
    that have no stack (an adapter's).
    """
    counts = [key for key, value in own.items() if _LAYERS.fullmatch(key) and count(value)]
    naming = [(own, key) for key in own if not _of_tower(own, key)]
    naming += [(around, key) for key in around or () if _of_tower(around or {}, key)]
    bare = [fields for fields in beside if not any(map(_LAYERS.fullmatch, fields))]
    naming += [(fields, key) for fields in bare for key in fields if key.startswith(_TOWER)]
    naming = [(fields, key) for fields, key in naming if _is_index(key, fields[key])]
    stacks = []
    for name in counts:
        total = own[name]
        lists = [
            value
            for key, value in own.items()
            if _is_by_layer(value, total) and not _holds_indexes(key, value)
        ]
        named = [index for fields, key in naming for index in _as_indexes(fields[key], total)]
        stacks.append(Stack(total, keep(total, most, lists, named)))
    if stacks:
        for fields, key in naming:
            fields[key] = _reindex(fields[key], stacks[0])
        _follow(own, stacks[0])
    own.update({key: len(stack.kept) for key, stack in zip(counts, stacks, strict=True)})
    return stacks


def _of_tower(fields: dict[str, Any], key: str) -> bool:
    """Whether a field speaks of the tower's layers (LLaVA's ``vision_feature_layer``): all do that
    name layers where the config has none of its own."""
    if "vision_config" not in fields:
        return False
    return key.startswith(_TOWER) or not any(map(_LAYERS.fullmatch, fields))


def _follow(own: dict[str, Any], stack: Stack) -> None:
    for key, value in list(own.items()):
        if _is_by_layer(value, stack.total) and not _holds_indexes(key, value):
            own[key] = [value[index] for index in stack.kept]
    layers = by_layer(own)
    if layers:
        kept = {stack.kept.index(at): value for at, value in layers.items() if at in stack.kept}
        own[_BY_LAYER] = replace(own[_BY_LAYER], per_layer_overrides=kept)
    for key in _COUNTED_BEFORE:
        if isinstance(limit := own.get(key), int):
            own[key] = sum(index < limit for index in stack.kept)


def by_layer(own: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Fields that layers have otherwise than the rest, by layer (transformers 5: Gemma 4's head
    dimensions); {} where there are none."""
    return getattr(own.get(_BY_LAYER), "per_layer_overrides", None) or {}


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_by_layer(value: Any, total: int) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == total and total > 1


def _holds_indexes(key: str, value: Sequence[Any]) -> bool:
    """A list as long as the stack that still names layers, like ``moe_layers`` of all of them."""
    return bool(_INDEXES.fullmatch(key)) and list(value) == list(range(len(value)))


def _is_index(key: str, value: Any) -> bool:
    """A layer's number, or several: ``vision_feature_layer``, ``deepstack_visual_indexes``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return key in _INDEX
    if not _INDEXES.fullmatch(key) and key not in _INDEX:
        return False
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        and len(set(value)) == len(value)
    )


def _as_indexes(value: Any, total: int) -> list[int]:
    """As numbers from the front; the first and last three suffice when many are named."""
    values = [value] if isinstance(value, int) else sorted(value)
    front = [item if item >= 0 else total + item for item in values]
    return front if len(front) <= 6 else front[:3] + front[-3:]


def _reindex(value: Any, stack: Stack) -> Any:
    """Where the same layers are in the cut stack; those cut off are no longer named."""
    if isinstance(value, int):
        return _reindex_one(value, stack)
    moved = [_reindex_one(item, stack) for item in value]
    return list(dict.fromkeys(item for item in moved if item is not None))


def _reindex_one(value: int, stack: Stack) -> int | None:
    front = value if value >= 0 else stack.total + value
    if front == stack.total:  # there is one more hidden state than layers
        return len(stack.kept)
    if front not in stack.kept:
        return None
    return stack.kept.index(front) - (len(stack.kept) if value < 0 else 0)
