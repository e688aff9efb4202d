"""What a plug-in's ``rehearse`` module gives; `Described` and `Commands` are its answers.

Such a module has ``NAME`` and

* ``describe(values, entry, files) -> Described``: in the command line's process, light;
* ``remote(source) -> list[str]``: files of a model's own code;
* ``load()``: imports everything, once, in the worker;
* ``ready(source)``, if it wants it: imports what the ranks of this model need besides, in the
  worker, so that no rank has to;
* ``make(source, out) -> dict``: the tiny checkpoint (``weights``, ``full``, ``class``), in a rank;
  with a number of layers to keep as a third argument where the command names one of its layers;
* ``commands(request, made, rows, single, steps) -> Commands``;
* ``own(request, made, rows, steps) -> Commands | str``, if it can: the command with its own
  optimizer and dtype, for one rank alone, its ``reference`` empty; or why not this one;
* ``ENDING``, if its ending is rehearsed: True;
* ``act(scene) -> dict``: one rank of one pass;
* ``DROPS``, if its training set has a row for each of the file's, but for those that it drops;
* ``shaped(request, rows) -> list``, if it wants it: `stand_in_rows.stand_ins` as its own rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Described:
    """What a command says of its model, data and loop; as `request.Request` has it.

    Attributes:
        accumulation: micro-batches of a step, where it matters here; 0: as the command says.
        code: flags with the user's own code, as they stand.
        evaluates: whether it evaluates while it trains, and that is rehearsed; evaluated: on these
            files, else on rows of the training set.
        generates_at_evaluation: whether it evaluates by generating.
        fewest: rows that each rank needs for its first micro-batch, where the loader leaves out
            what is not whole; 0 where rows come again until it is.
        packs: whether rows are joined into one.
        obstacle: why it cannot be rehearsed; "" where it can.
    """

    model: str = ""
    data: tuple[str, ...] = ()
    batch: int = 1
    shuffled: bool = True
    generates: bool = False
    blocks: bool = False
    paired: bool = False
    accumulation: int = 0
    row: str = "chat"
    media_root: str = ""
    evaluates: bool = False
    generates_at_evaluation: bool = False
    evaluated: tuple[str, ...] = ()
    fewest: int = 0
    packs: bool = False
    code: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True)
class Commands:
    """Attributes:
    argv: the command as it is run here; reference: the one it is judged by.
    env: variables to set for both.
    notes: what was replaced.
    wrapper: variables by which a launcher says how the model is wrapped: not for a reference that
        has no wrapper.
    unseen: of one rank alone: what it cannot show of this command.
    """

    argv: tuple[str, ...]
    reference: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    wrapper: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


def of(adapter: str) -> Any:
    """A plug-in's ``rehearse`` module; None where it has none."""
    try:
        return importlib.import_module(f"{adapter}.rehearse")
    except ModuleNotFoundError as error:
        if error.name not in (adapter, f"{adapter}.rehearse"):
            raise
        return None
