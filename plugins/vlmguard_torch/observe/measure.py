"""Observes a model: makes its tiny copy, runs each kind of row on it, and reads the traces.

Slow, and imported only for a model whose observation is not kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.observe import counterparts, example_rows, row_trace
from vlmguard_torch.observe.facts_of_rows import View, kind_facts, per_item, shared, skipped
from vlmguard_torch.observe.isolated_state import unpartitioned
from vlmguard_torch.observe.observed import KindFacts, Observed, Tried, may, name_of, reason
from vlmguard_torch.observe.rebind import carry_over, idle
from vlmguard_torch.observe.shrink import MOST_LAYERS, shrink

if TYPE_CHECKING:
    from vlmguard_torch.observe.blank_trial import Blank

SECONDS, WAIT = 8.0, 40.0
"""Of work and of waiting for the processor; what is not run by then is not known. Qwen3.5, with a
quarter of a million words, takes five; an answer is kept for the next run."""
ALL_LAYERS = 10_000
MOST_WEIGHTS = 150_000_000
"""Of a copy; more means that a width was not recognised, and the copy would not be tiny."""


def cut_or_whole(
    model: Any,
    part: str,
    blank: Blank | None,
    media: tuple[str, ...] | None = None,
    reentrant: bool = False,
    named: Parameters | None = None,
) -> Observed:
    """Within `SECONDS`. A class that builds its layers by a rule of its own may not stand a cut;
    all of them then."""
    limit = row_trace.Limit.of(SECONDS, WAIT)
    try:
        facts = measure(model, part, blank, limit, MOST_LAYERS, media, reentrant, named)
        failed = None if facts else facts
    except row_trace.TooLong:
        raise
    except Exception as error:
        failed = may(reason(error), name_of(model))
    if failed is None:
        return facts
    try:
        whole = measure(model, part, blank, limit, ALL_LAYERS, media, reentrant, named)
        return whole or failed
    except Exception:
        return failed


def measure(
    model: Any,
    part: str = "",
    blank: Blank | None = None,
    limit: row_trace.Limit = row_trace.NO_LIMIT,
    most_layers: int = MOST_LAYERS,
    media: tuple[str, ...] | None = None,
    reentrant: bool = False,
    named: Parameters | None = None,
) -> Observed:
    """Observe without cache, switch or containment; call it under `isolated_state`. ``named`` are
    the model's parameters, if they have been walked over."""
    begun = time.monotonic()
    shrunk = shrink(model.config, most_layers)
    with unpartitioned():
        copy = tiny(type(model), shrunk.config, limit)
    found = counterparts.modules(model, copy, shrunk.stacks)
    carry_over(model, copy, found)
    named = Parameters(model) if named is None else named
    names = [name for name, _ in named.named_parameters(remove_duplicate=False)]
    stands = counterparts.parameters(names, found, copy)
    rows = example_rows.Rows(copy, row_trace.TooLong)
    with idle(model, copy):
        traces, refused = _run(copy, rows, limit)
    if not traces:
        return may("; ".join(f"{kind}: {why}" for kind, why in refused.items()), name_of(model))
    blanks: tuple[Tried, ...] = ()
    if blank is not None:
        from vlmguard_torch.observe import blank_trial

        with idle(model, copy), contextlib.suppress(Exception):
            blanks = blank_trial.tried(copy, blank, rows, traces, refused, limit, media)
    dropped = _dropped(model, copy, rows, traces, limit) if reentrant else frozenset()
    view = View(part, stands, found, traces)
    never, uncalled = view.never()
    kinds = [
        KindFacts(kind, refused[kind]) if kind in refused else kind_facts(view, copy, kind)
        for kind in (*traces, *refused)
    ]
    return Observed(
        "observed",
        model=name_of(model),
        part=part,
        kinds=tuple(kinds),
        never_used=None if _alone(refused) else never,
        never_called=uncalled,
        skipped=skipped(view, model),
        per_item=per_item(view),
        shared=shared(named, part),
        unsure=view.unsure,
        stacks=view.cut(model, copy, shrunk.stacks),
        patched=_patched(model, part),
        dropped=view.standing_for(dropped),
        blanks=blanks,
        counts_items=_alike(trace.counts_items for trace in traces.values()),
        seconds=round(time.monotonic() - begun, 3),
    )


def tiny(kind: type, config: Any, limit: row_trace.Limit) -> torch.nn.Module:
    """A small model of the class, every weight trainable.

    Weights are counted as they come, before memory is touched: a width that was not recognised
    would make the copy large. Raises MemoryError then, TooLong at the limit, else whatever the
    class raises.
    """
    count, here = 0, threading.get_ident()

    def counted(_: Any, __: str, weight: Any) -> None:
        nonlocal count
        if threading.get_ident() != here:  # a thread of the user's runs another model
            return
        count += 0 if weight is None else weight.numel()
        limit.check()
        if count > MOST_WEIGHTS:
            raise MemoryError(f"a copy would have more than {count / 1e6:.0f} million weights")

    handle = torch.nn.modules.module.register_module_parameter_registration_hook(counted)
    try:
        copy = build(kind, config).train()
    finally:
        handle.remove()
    for weight in copy.parameters():
        weight.requires_grad_(weight.is_floating_point())
    return copy


def build(kind: Any, config: Any) -> torch.nn.Module:
    """As transformers does without a checkpoint, or plainly."""
    if hasattr(kind, "_from_config"):
        return kind._from_config(config, attn_implementation="eager")  # type: ignore[no-any-return]
    return kind(config)  # type: ignore[no-any-return]


def _run(
    copy: torch.nn.Module, rows: example_rows.Rows, limit: row_trace.Limit
) -> tuple[dict[str, row_trace.Trace], dict[str, str]]:
    """Traces of the kinds that ran, and why the others did not."""
    traces: dict[str, row_trace.Trace] = {}
    refused: dict[str, str] = {}
    for kind in example_rows.kinds_of(copy):
        try:
            traces[kind] = rows.run(kind, lambda row: _seen(copy, row, traces.get("text"), limit))
        except Exception as error:
            refused[kind] = reason(error)
    return traces, refused


def _seen(
    copy: torch.nn.Module,
    row: Mapping[str, Any],
    text: row_trace.Trace | None,
    limit: row_trace.Limit,
) -> row_trace.Trace:
    """The trace of a row whose media the model looked at: it called what a text row does not, or
    its loss depends on them. Raises ValueError for a row whose media it dropped."""
    trace = row_trace.trace(copy, row, limit)
    trace = replace(trace, counts_items=row_trace.counts_items(copy, row, trace.loss))
    media = {key: value for key, value in row.items() if _is_media(value)}
    if text is None or not media or not trace.calls.keys() <= text.calls.keys():
        return trace
    with torch.no_grad():
        inverted = {key: 1 - value for key, value in media.items()}
        other = row_trace.loss_only(copy, {**row, **inverted})
        if other == row_trace.loss_only(copy, row):
            raise ValueError("the model ignored the media of the row")
    return trace


def _is_media(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _dropped(
    model: torch.nn.Module,
    copy: torch.nn.Module,
    rows: example_rows.Rows,
    traces: Mapping[str, row_trace.Trace],
    limit: row_trace.Limit,
) -> frozenset[str]:
    """Parameters of the copy that reentrant checkpointing leaves without a gradient, in rows of one
    image and one sound (of a video where no image ran)."""
    kinds = ("image" if "image" in traces else "video", "audio")
    with idle(model, copy):
        taken = [(rows.taken[kind], traces[kind]) for kind in kinds if kind in traces]
        return row_trace.dropped(copy, taken, limit)


def _alike(answers: Iterable[bool | None]) -> bool | None:
    """The one answer of all; None where they differ."""
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def _alone(kinds: Iterable[str]) -> bool:
    """Whether a kind with one medium, or none, is among them: rows of several use nothing else."""
    return any(len(example_rows.KINDS[kind]) < 2 for kind in kinds)


def _patched(model: torch.nn.Module, part: str) -> tuple[str, ...]:
    """Modules without others in them with a forward of their own, not their class's."""
    return tuple(
        ".".join(filter(None, (part, path)))
        for path, module in model.named_modules()
        if "forward" in vars(module) and not any(True for _ in module.children())
    )
