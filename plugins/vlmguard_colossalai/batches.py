"""What reaches forward → `Batch`. Reads keys; reads values only where they are on the CPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from vlmguard.core.facts import Phase, Sample
from vlmguard_colossalai.gemini_facts import Step
from vlmguard_torch.layout.towers import without_adapters

_VISUAL = ("pixel", "image", "img", "picture", "video", "vision", "visual")
_NOT_VISUAL = ("token", "feature_layer", "feature_select", "mask", "embeds", "label")


Rebuild = Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def arguments(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Rebuild] | None:
    """The batch by name, and how to call with another one; None for what has no names."""
    if not args:
        return kwargs, lambda batch: ((), dict(batch))
    if len(args) == 1 and isinstance(args[0], Mapping):
        first = args[0]
        return first, lambda batch: ((_like(first, batch),), dict(kwargs))
    inner = without_adapters(model)
    try:
        signature = inspect.signature(inner.forward)
        named = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    of_kind = {parameter.kind: name for name, parameter in signature.parameters.items()}
    rest = named.pop(of_kind.get(inspect.Parameter.VAR_KEYWORD, ""), {})
    named = {**named, **rest}
    if inspect.Parameter.VAR_POSITIONAL in of_kind or "input_ids" not in named:
        return None
    return named, lambda batch: ((), dict(batch))


def _like(original: Mapping[str, Any], batch: Mapping[str, Any]) -> Any:
    """The same kind of mapping: some models read attributes of a BatchFeature."""
    try:
        return type(original)(dict(batch))  # type: ignore[call-arg]
    except Exception:
        return dict(batch)


def visual(batch: Mapping[str, Any], known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Visual entries that are there: by name (``known`` are the processor's own), or a tensor of a
    shape that no text has."""
    return tuple(
        name
        for name, value in batch.items()
        if isinstance(name, str)
        and value is not None
        and (name in known or _is_visual(name) or _looks_visual(name, value))
    )


def _is_visual(name: str) -> bool:
    return any(p in name for p in _VISUAL) and not any(p in name for p in _NOT_VISUAL)


def _looks_visual(name: str, value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.ndim < 3:
        return False
    pixels = value.is_floating_point() or value.dtype == torch.uint8
    return pixels and not any(part in name for part in _NOT_VISUAL)


def devices(batch: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds of devices that its tensors are on."""
    kinds = {v.device.type for v in batch.values() if isinstance(v, torch.Tensor)}
    return tuple(sorted(kinds))


def accepts(model: Any) -> tuple[str, ...]:
    """Visual entries that the model's forward takes by name."""
    inner = without_adapters(model)
    try:
        names = inspect.signature(inner.forward).parameters
    except (TypeError, ValueError):
        return ()
    return tuple(name for name in names if _is_visual(name))


def facts(
    batch: Mapping[str, Any],
    family: Any,
    config: Any,
    placeholders: frozenset[int],
    lacks: tuple[str, ...],
    why_not: str,
    reorders: bool = False,
    used: bool = False,
    known: bool = True,
    phase: Phase = "train",
) -> Step:
    """Facts about one collated batch: one sample where it has images, else one a row."""
    present = visual(batch, lacks)
    kinds = {"video" if "video" in name else "image" for name in present} or {"text"}
    samples = _with_images(batch, present, family, config, placeholders)
    if not present:
        samples = tuple(Sample(placeholders=n) for n in _counts(batch, placeholders))
    return Step(
        samples=samples,
        kinds=tuple(sorted(kinds)),
        phase=phase,
        known=known,
        lacks=() if present else lacks,
        why_not=why_not,
        reorders=reorders,
        used=used,
    )


def _with_images(
    batch: Mapping[str, Any],
    present: tuple[str, ...],
    family: Any,
    config: Any,
    placeholders: frozenset[int],
) -> tuple[Sample, ...]:
    if family is None:
        return (Sample(keys=present),)
    needs = [(key, needed) for key, all_needed in family.needs.items() for needed in all_needed]
    missing = tuple(
        needed if key in present else key
        for key, needed in needs
        if (key in present) != (needed in present)
    )
    counts = _counts(batch, placeholders)
    on_host = devices(batch) == ("cpu",)
    return (
        Sample(
            placeholders=sum(counts) if counts else None,
            expected=family.expected(batch, config, "") if on_host and not missing else None,
            keys=present,
            missing=missing,
        ),
    )


def _counts(batch: Mapping[str, Any], placeholders: frozenset[int]) -> list[int]:
    """Placeholder tokens a row; [] where that would mean waiting for a device."""
    ids = batch.get("input_ids")
    if not placeholders or not isinstance(ids, torch.Tensor) or ids.device.type != "cpu":
        return []
    wanted = torch.tensor(sorted(placeholders), dtype=ids.dtype)
    return [int(n) for n in torch.isin(ids, wanted).reshape(ids.shape[0], -1).sum(-1)]
