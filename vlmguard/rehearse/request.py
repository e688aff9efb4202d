"""What is rehearsed, as plain data: it goes to the worker as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RANKS = 2


@dataclass(frozen=True)
class Request:
    """One training command.

    Attributes:
        adapter: whose ``rehearse`` module runs it: "vlmguard_swift".
        entry: the framework's own entry: "sft".
        argv: the words behind the entry.
        env: the variables that its script sets for it.
        folder: where it would run.
        strategy, world: as `core.facts.Run` has them.
        model: the folder with its config.json, tokenizer and processor.
        name: the model's last name; frameworks look at it.
        data: local data files; empty: stand-in rows.
        why_no_data: why there are none, or which are left out.
        shuffled: whether its loader shuffles.
        batch, accumulation: rows of a micro-batch, micro-batches of a step.
        own_accumulation: what the command itself asks for; 0: the same.
        evaluates: whether it evaluates after the last step; evaluated: on which local files; empty:
            on rows as those that it trains on.
        generates_at_evaluation: it evaluates by generating, which only its ending shows.
        towers: kinds that train, going by the command.
        media: kinds of media that the model takes.
        media_root: the folder that its rows' media are relative to; "" for ``folder``.
        accelerate: what `accelerate launch` was told, its config file and flags together.
        generates: batches are made by generation: the reference keeps the wrapper.
        blocks: the loader gives a rank rows that follow each other, not every ``world``-th.
        paired: what a rank does depends on its number: the reference has as many ranks.
        row: what a row holds: "chat", "pair" (chosen and rejected), "prompt", "label" (a completion
            that is good or bad), "class" (with its label) or "query" (with passages).
        known: the framework's own flags in this release.
        fewest: rows that each rank needs for its first micro-batch; 0 where any number does.
        scratch: a folder of ours; all that is written goes there.
        thorough: more orders of rows.
        limit: seconds for one pass.
        local: ranks of one node; 0 where it is not known.
        passes: what is looked at: the guard off, on, its ending, and one rank alone at the real
            size.
        paths, imports, launched, local_rank: of a script of the user's own: where it finds its
            modules, the packages that it imports, whether a launcher starts it, and whether that
            adds the flag of this name.
        loop: it trains in a loop of its own, without transformers' Trainer.
    """

    adapter: str
    entry: str
    argv: tuple[str, ...]
    folder: str
    strategy: str
    world: int
    model: str
    name: str
    scratch: str
    env: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    why_no_data: str = ""
    shuffled: bool = True
    batch: int = 1
    accumulation: int = 1
    own_accumulation: int = 0
    evaluates: bool = False
    evaluated: tuple[str, ...] = ()
    generates_at_evaluation: bool = False
    towers: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    media_root: str = ""
    accelerate: Mapping[str, Any] = field(default_factory=dict)
    generates: bool = False
    blocks: bool = False
    paired: bool = False
    row: str = "chat"
    known: tuple[str, ...] = ()
    thorough: bool = False
    limit: float = 300.0
    local: int = 0
    fewest: int = 0
    passes: tuple[str, ...] = ("off", "on", "end", "alone")
    paths: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    launched: bool = False
    local_rank: bool = False
    loop: bool = False

    @property
    def ranks(self) -> int:
        """How many are run: two stand for more."""
        return min(self.world, RANKS)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def read(data: Mapping[str, Any]) -> Request:
    """The inverse of `Request.as_data`; JSON turns tuples into lists."""
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Request(**given)
