"""What `check` knows → the `Run` that rules judge. The only file here that spells its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmguard.check.reading.row_kinds import Rows
from vlmguard.core.facts import PARTITIONED, Certainty, Checkpointing, Run, Strategy, Tower
from vlmguard.core.findings import Finding


@dataclass
class Draft:
    """A run, as far as its command tells. ``doubts`` lists what the command does not tell.
    ``unread`` lists what could not be looked at, though it should be. ``findings`` lists what a
    framework's own code or flags do, beside what rules judge. ``in_code`` lists the arguments that
    a script sets itself: no flag changes them.

    Attributes:
        trains: tower kind → whether it trains ("full", "adapters", "").
        checkpointed: tower kinds under gradient checkpointing.
        pads_itself: whether the framework runs towers on a blank image where a batch has none.
        own_padding: why, in words.
        repeats: whether a checkpointed tower runs more than once in a forward.
    """

    framework: str
    releases: Mapping[str, str] = field(default_factory=dict)
    strategy: Strategy = "single"
    world: int = 1
    tuning: str = "full"
    trains: Mapping[str, str] = field(default_factory=dict)
    checkpointed: tuple[str, ...] = ()
    use_reentrant: bool | None = None
    asked: bool | None = None
    decided_by: str = ""
    forwards: int = 1
    repeats: Certainty = "no"
    rows: Rows = field(default_factory=Rows)
    pads_itself: Certainty = "no"
    can_pad: bool = True
    find_unused: bool | None = None
    static_graph: bool | None = None
    accumulation: int = 1
    clipping: str = ""
    router_loss: bool = False
    generates: bool = False
    overlap_comm: bool = False
    schedules: bool = False
    freeze: tuple[str, ...] = ()
    conflicting_flags: tuple[str, ...] = ()
    doubts: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    in_code: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def doubt(self, text: str) -> None:
        if text not in self.doubts:
            self.doubts.append(text)


def run(draft: Draft) -> Run:
    """The facts, in the words of `core.facts`."""
    towers = tuple(_tower(kind, how, draft) for kind, how in draft.trains.items())
    on = any(tower.checkpointed for tower in towers)
    ddp = draft.strategy == "ddp"
    unused = _may_be_unused(draft)
    values: dict[str, Any] = {
        "framework": draft.framework,
        "releases": dict(draft.releases),
        "strategy": draft.strategy,
        "world": draft.world,
        "tuning": draft.tuning,
        "checkpointing": Checkpointing(
            on, draft.use_reentrant if on else None, draft.asked, draft.decided_by
        ),
        "towers": towers,
        "forwards": draft.forwards,
        "repeats": draft.repeats,
        "frozen": any(tower.trainable < tower.total for tower in towers),
        "may_be_unused": unused,
        "can_pad": draft.can_pad and unused != "no" and not ddp,
        "find_unused": draft.find_unused if ddp else None,
        "static_graph": draft.static_graph if ddp else None,
        "accumulation": draft.accumulation,
        "clipping": draft.clipping,
        "router_loss": draft.router_loss,
        "generates": draft.generates,
        "overlap_comm": draft.overlap_comm,
        "empty_group": "possible" if _may_be_empty(draft) else "no",
        "freeze": draft.freeze,
        "conflicting_flags": draft.conflicting_flags,
        "rows": tuple(sorted(draft.rows.kinds)),
    }
    return Run(**values)


def _may_be_empty(draft: Draft) -> bool:
    """ms-swift and LLaMA-Factory make an optimizer's groups themselves."""
    plain = draft.framework in ("transformers", "TRL", "FlagEmbedding")
    return plain and draft.schedules and draft.tuning == "lora"


def _tower(kind: str, how: str, draft: Draft) -> Tower:
    """Counts stand for "some", not for a number: no weight was looked at."""
    total = 2 if how == "adapters" else 1
    frozen_by_us = kind in draft.freeze
    trainable = 1 if how and not frozen_by_us else 0
    return Tower(kind, (), total, trainable, trainable if how == "adapters" else 0,
                 kind in draft.checkpointed)  # fmt: skip


def _may_be_unused(draft: Draft) -> Certainty:
    """Whether a batch can leave a tower unused that the strategy minds."""
    kinds = {"vision", "audio", "aligner"}
    towers = {kind: how for kind, how in draft.trains.items() if kind in kinds}
    minds = draft.strategy in PARTITIONED
    if draft.strategy == "single" or not towers or draft.pads_itself == "yes":
        return "no"
    if not minds and not any(towers.values()):
        return "no"
    if not draft.rows.kinds:
        return "possible"
    plain = "text" in draft.rows.kinds
    media = bool(draft.rows.kinds - {"text"})
    if plain and media:
        return "possible" if draft.pads_itself == "possible" else "yes"
    if not draft.rows.complete:
        return "possible"
    if plain:  # no rank ever uses a tower: ZeRO and FSDP have nothing to wait for, DDP does
        return "yes" if draft.strategy == "ddp" else "no"
    return "no"
