"""What the ledger passes around: the account of one optimizer, and verdicts about its windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

STATIONS = ("rows", "targets", "reach", "reduce", "update", "ranks")
State = Literal["balances", "differs", "cannot tell", "idle"]
"""The station was read and balances; was read and does not; could not be read; had nothing to read
in this window."""
Page = Mapping[str, Any]
"""What one rank read in one window, as JSON: ``window``, ``step``, ``rank``, ``micro`` (its
micro-batches), ``kinds`` (of rows), ``unread`` (station → why it could not be read), and under
each station's name what its reader read."""


@dataclass(frozen=True)
class Tensor:
    """One parameter of the model.

    Attributes:
        name: plain name, without what wrappers put around it.
        kind: "vision", "audio", "aligner", "llm"; "other" where the model has no towers.
        numel: entries of the whole tensor.
        dtype: "float32", "bfloat16", …
        trainable: whether it required a gradient when the account was opened.
        group: index of the optimizer's group that holds it, None if none does.
    """

    name: str
    kind: str
    numel: int
    dtype: str
    trainable: bool
    group: int | None


@dataclass(frozen=True)
class Account:
    """One optimizer and the model that it moves.

    Attributes:
        tensors: the model's parameters, in the model's order, alike on all ranks.
        world: ranks of one data-parallel group.
        strategy: "single", "ddp", "zero1", …, "fsdp2"; "" if unknown.
        text: token ids → the text of each, where a tokenizer is known.
    """

    tensors: tuple[Tensor, ...]
    world: int = 1
    strategy: str = ""
    text: Callable[[Sequence[int]], list[str]] | None = field(
        default=None, compare=False, repr=False
    )


@dataclass(frozen=True)
class Entry:
    """Something that one station has to say of a window.

    Attributes:
        code: a rule's code, VG610 to VG669.
        level: "warning" for a wrong update, "note" for what is only shown.
        why: one sentence: what is so, with numbers.
        what: which tensors or rows, in words ("37 of 60 vision tensors").
        since: the first step that it was seen in.
        size: relative size of the difference, where there is one.
        advice: what to do, or what usually causes it; "" if unknown.
        towers: the towers that it is about, if it is about nothing but whole ones.
    """

    code: str
    level: Literal["warning", "note"]
    why: str
    what: str = ""
    since: int = 0
    size: float | None = None
    advice: str = ""
    towers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What a station says of one window.

    Attributes:
        reason: why it cannot tell; "" otherwise.
        shown: numbers for the line, the page and the logs, as JSON.
    """

    station: str
    state: State
    entries: tuple[Entry, ...] = ()
    reason: str = ""
    shown: Mapping[str, Any] = field(default_factory=dict)
