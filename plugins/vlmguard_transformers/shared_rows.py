"""Which kinds of rows the ranks of a run may meet: every rank's own, put together.

Rows may be sharded or streamed, so ranks may hold different kinds. Each tells its own through the
rendezvous store, and all plan from the union that one decision names. Where not all were heard in
time no rank relies on what it knows (`Meets.complete`): then any kind is possible, on all alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from vlmguard import agree
from vlmguard.core.runstate import RunState
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile

_KEY = "rows"
_SENSES = {"image": "vision", "video": "vision", "audio": "audio"}


@dataclass(frozen=True)
class Meets:
    """Attributes:
    train, evaluated: kinds of rows; None if a rank cannot tell.
    complete: whether all ranks were heard, or there is but one.
    """

    train: frozenset[str] | None
    evaluated: frozenset[str] | None = frozenset()
    complete: bool = True

    @property
    def all(self) -> frozenset[str] | None:
        if self.train is None or self.evaluated is None:
            return None
        return self.train | self.evaluated

    @property
    def media(self) -> tuple[str, ...] | None:
        """The kinds of input that some rank may have, for a blank one; None: untold."""
        found = {part for row in self.all or () for part in row.split("+")} - {"text"}
        return tuple(sorted(found)) or None


def senses(row: str) -> frozenset[str]:
    """The towers that a kind of row needs: {"vision"} for an image or a video, {} for text."""
    return frozenset(_SENSES[part] for part in row.split("+") if part in _SENSES)


def of(read: Reading) -> Meets:
    """What the ranks may meet; asked of the others once a run, with this rank's releases."""
    state = read.state
    mine = partial(own, read.trainer, read.profile)
    if state is None:
        return mine()
    if _KEY not in state.kept:
        world = read.trainer.args.world_size
        state.kept[_KEY] = _together(mine(), state, world, read.releases)
    return state.kept[_KEY]  # type: ignore[no-any-return]


def own(trainer: Any, profile: Profile) -> Meets:
    """What this rank's data sets hold."""
    train = getattr(trainer, "train_dataset", None)
    return Meets(
        profile.rows(trainer, train) if train is not None else frozenset(),
        _evaluated(trainer, profile),
    )


def _evaluated(trainer: Any, profile: Profile) -> frozenset[str] | None:
    data = getattr(trainer, "eval_dataset", None)
    if data is None:
        return frozenset()
    sets = list(data.values()) if isinstance(data, dict) else [data]
    found = [profile.rows(trainer, each) for each in sets]
    return None if None in found else frozenset().union(*found)  # type: ignore[arg-type]


def _together(mine: Meets, state: RunState, world: int, releases: Mapping[str, str]) -> Meets:
    if world < 2:
        return mine
    rows = [_listed(mine.train), _listed(mine.evaluated)]
    told = agree.decided(state, world, releases, rows)
    if told is None:
        # There is no store. HF's trainers get the whole data set on every rank, and shard it later.
        return mine
    if not told.known:
        return Meets(None, None, False)
    heard = [value["rows"] if value else (None, None) for _, value in told.values]
    train, evaluated = zip(*heard, strict=True)
    return Meets(_union(train), _union(evaluated))


def _listed(rows: frozenset[str] | None) -> list[str] | None:
    return None if rows is None else sorted(rows)


def _union(rows: tuple[list[str] | None, ...]) -> frozenset[str] | None:
    return None if None in rows else frozenset().union(*map(frozenset, rows))  # type: ignore[arg-type]
