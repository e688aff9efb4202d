"""A blank input, tried on the tiny copy: each kind of input by itself, and all kinds together.

A kind is proven if two things hold. A row of text has the same loss and gradients with its blank as
without, bit for bit. And the blank runs what a real input runs: the same modules in the same order,
as often, the same parameters reached. If the model's forward itself calls something behind the
features (Llama4's projector), the trial sees that the blank left it out, calls it behind them, and
tries again. If the input made from the config does not run, it tries one of a real row's shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import model_layout
from vlmguard_torch.observe import example_rows, row_trace
from vlmguard_torch.observe.observed import Tried, reason
from vlmguard_torch.observe.row_trace import Trace

Blank = Callable[[torch.nn.Module, Sequence[Tried]], AbstractContextManager[Any]]
"""Makes a model run its towers on these blank inputs in rows without one, within the context."""
MOST_BEHIND = 2
"""Modules that are called behind the features."""


def tried(
    copy: torch.nn.Module,
    blank: Blank,
    rows: example_rows.Rows,
    traces: Mapping[str, Trace],
    refused: Mapping[str, str],
    limit: row_trace.Limit,
    wanted: Sequence[str] | None = None,
) -> tuple[Tried, ...]:
    """An answer for each kind of input that the model computes features of (or of ``wanted``, those
    of them), in the model's own order; behind them, where several are proven, one for all of these
    together."""
    try:
        layout = model_layout.find(copy)
    except CannotBlank:
        return ()
    kinds = [kind for kind in layout.kinds if wanted is None or kind in wanted]
    trial = _Trial(copy, blank, rows, traces, limit)
    if why := refused.get("text") or trial.begin():
        return tuple(Tried(kind, None, why) for kind in kinds)
    found = [_one(trial, kind, refused, _path(copy, layout.owner)) for kind in kinds]
    return (*found, *_together(trial, [each for each in found if each.proven]))


def _path(copy: torch.nn.Module, owner: torch.nn.Module) -> str:
    return next(path for path, module in copy.named_modules() if module is owner)


def _one(trial: _Trial, kind: str, refused: Mapping[str, str], owner: str) -> Tried:
    seen = trial.traces.get(kind)
    if seen is None:
        return Tried(kind, None, refused.get(kind, f"no row with {kind} is known for its class"))
    why = ""
    for candidate in dict.fromkeys((None, trial.rows.chosen(kind))):
        first, behind = "", tuple[str, ...]()
        for _ in range(2):
            attempt = Tried(kind, True, "", candidate, behind)
            done, told = trial.run([attempt], "text")
            if done is None and "TooLong" in told:
                return Tried(kind, None, told)
            told = told or trial.wrong(done, seen)
            if not told:
                return attempt
            first, behind = first or told, trial.left_out(done, seen, owner) if done else ()
            if not behind:
                break
        why = first
    return Tried(kind, False, why)


def _together(trial: _Trial, proven: list[Tried]) -> Iterator[Tried]:
    """Whether rows of text and of each proven kind, with the blanks of the others, run the same
    modules in the same order: what ranks that gather as they go need."""
    if len(proven) < 2:
        return
    kind = "+".join(each.kind for each in proven)
    text, why = trial.run(proven, "text")
    why = why or trial.loud(text)
    for each in proven:
        if why:
            break
        other, why = trial.run(proven, each.kind)
        why = why or trial.apart(text, other, each.kind)
    yield Tried(kind, not why, why)


class _Trial:
    """Rows on one copy, with blanks and without."""

    def __init__(
        self,
        copy: torch.nn.Module,
        blank: Blank,
        rows: example_rows.Rows,
        traces: Mapping[str, Trace],
        limit: row_trace.Limit,
    ) -> None:
        self.copy, self.blank, self.rows, self.traces = copy, blank, rows, traces
        self.limit = limit
        self.text: Any = None
        names = (name.split(".") for name, _ in copy.named_parameters(remove_duplicate=False))
        self.weighty = {".".join(parts[:end]) for parts in names for end in range(1, len(parts))}

    def begin(self) -> str:
        """Run the row of text that all is compared with; why nothing can be, or ""."""
        self.text, why = self.run((), "text")
        if not why and math.isnan(self.text.loss):
            why = "the loss of a text row is no number"
        return why

    def run(self, blanks: Sequence[Tried], kind: str) -> tuple[Any, str]:
        """The trace of a row of ``kind`` with these blanks, or None and what went wrong."""
        try:
            if not blanks:
                return self._row(kind), ""
            with self.blank(self.copy, blanks):
                return self._row(kind), ""
        except Exception as error:
            return None, reason(error)

    def _row(self, kind: str) -> Trace:
        return row_trace.trace(self.copy, self.rows.taken[kind], self.limit, gradients=True)

    def wrong(self, done: Trace, seen: Trace) -> str:
        """Why ``done``, a row of text with a blank, is not what it is without, or does not do what
        ``seen``, a row with a real input, does; "" where it is and does."""
        return self.loud(done) or self._lacks(done, seen)

    def loud(self, done: Trace) -> str:
        """What the blank changes in a row of text."""
        text = self.text
        if done.loss != text.loss:
            return f"it changes the loss of a text row from {text.loss:.9g} to {done.loss:.9g}"
        for name, gradient in done.gradients.items():
            own = text.gradients.get(name)
            if own is None and bool(gradient.any()):
                return f"it gives {name} a gradient that is not 0"
            if own is not None and not _alike(own, gradient):
                return f"it changes the gradient of {name} in a text row"
        return ""

    def _lacks(self, done: Trace, seen: Trace) -> str:
        """What a medium runs and text does not, and the blank leaves out; or what only the blank
        reaches: ranks would reduce other gradients. Which experts are chosen is chance."""
        text = self.text
        missed = sorted(_certain(seen.reached - text.reached - done.reached))
        if missed:
            tensors = "1 parameter tensor" if len(missed) == 1 else f"{len(missed)} tensors"
            return f"{tensors} that a real input trains would get no gradient, such as {missed[0]}"
        more = sorted(_certain(done.reached - text.reached - seen.reached))
        if more:
            return f"it reaches {more[0]}, which a real input does not train"
        idle = sorted(_certain(path for path in seen.calls if path not in done.calls))
        idle = [path for path in idle if path not in text.calls]
        if idle:
            return f"it does not run {idle[0]}, as a real input does"
        # Repeats count: each call gathers weights, and the last call's gradient comes first.
        return _order(list(_certain(done.sequence)), list(_certain(seen.sequence)))

    def apart(self, text: Trace, other: Trace, kind: str) -> str:
        """Where a row of ``kind`` goes another way than a row of text."""
        here, there = (list(_certain(_of(each.order, self.weighty))) for each in (text, other))
        if told := _order(here, there):
            return f"with the others' blanks, text and {kind} rows part: {told}"
        for path in here:
            one, two = text.calls[path], other.calls[path]
            if one != two:
                return f"text and {kind} rows run {path} {one} and {two} times"
        return ""

    def left_out(self, done: Trace, seen: Trace, owner: str) -> tuple[str, ...]:
        """Paths in ``owner`` of the outermost modules with weights that a real input runs and the
        blank does not, in the order of their calls; () where there are too many."""
        above = f"{owner}." if owner else ""
        idle = [
            path
            for path in seen.order
            if path in self.weighty
            and path.startswith(above)
            and path not in done.calls
            and path not in self.text.calls
        ]
        outer = [path for path in idle if path.rpartition(".")[0] not in idle]
        return (
            tuple(path.removeprefix(above) for path in outer) if len(outer) <= MOST_BEHIND else ()
        )


def _order(here: Sequence[str], there: Sequence[str]) -> str:
    if list(here) == list(there):
        return ""
    pairs = [(one, other) for one, other in zip(here, there, strict=False) if one != other]
    if not pairs:
        more = max(here, there, key=len)
        return f"one runs {more[min(len(here), len(there))]}, the other does not"
    return f"it runs {pairs[0][0]} where a real input runs {pairs[0][1]}"


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _of(order: Iterable[str], paths: Iterable[str]) -> list[str]:
    wanted = set(paths)
    return [path for path in order if path in wanted]


def _certain(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if "experts." not in name)
