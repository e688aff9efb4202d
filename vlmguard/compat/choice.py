"""The one place that names a checkpoint variant and wrap options: ``choose(run)``.

It asks the measured tables (`verdicts`), so no release number stands in a rule or an adapter. A
table that cannot be read is said once and answers as "untested": training never stops for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vlmguard.compat import cases, verdicts
from vlmguard.compat.cases import Case, Query
from vlmguard.compat.verdicts import Seen, folder
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.runtime.faults import fault

__all__ = ["Choice", "Option", "answer", "choose", "folder", "newer", "nothing", "untested"]

_PACKAGES = ("torch", "deepspeed", "transformers", "peft")
_REENTRANT = {"reentrant": True, "non_reentrant": False, "none": None}
_NAMES = {"deepspeed": "DeepSpeed", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "zero3": "ZeRO-3",
          "ddp": "DDP", "fsdp2": "FSDP2"}  # fmt: skip
# The strategies that are most like it, the most alike first.
_OTHER = {"zero3": ("zero2", "zero1", "fsdp2"), "zero2": ("zero1", "zero3", "ddp"),
          "zero1": ("zero2", "ddp"), "ddp": ("zero1", "zero2"), "fsdp2": ("zero3", "zero2"),
          "fsdp": ("fsdp2", "zero3")}  # fmt: skip
_OFF = "checkpointing off"
_UNREADABLE = "the compatibility tables cannot be read"


@dataclass(frozen=True)
class Option:
    """One variant under one wrap, and what the tables say of it.

    Attributes:
        wrap: strategy of the tables ("ddp_find_unused", "zero3", …).
        checkpointing: "none", "reentrant" or "non_reentrant".
        seen: the worst of what is known of the cases that it must work in; None if nothing is.
        fails: verdicts, other than ok, of the cases that it may meet as well, by kind of batch.
        doubts: required cases of the real model that went wrong on the nearest releases.
    """

    wrap: str
    checkpointing: str
    seen: Seen | None
    fails: tuple[tuple[str, str], ...] = ()
    doubts: int = 0

    @property
    def broken(self) -> bool:
        return self.seen is not None and self.seen.ok is False

    @property
    def sure(self) -> bool:
        return self.seen is not None and self.seen.sure


@dataclass(frozen=True)
class Choice:
    """What works here.

    Attributes:
        use_reentrant, find_unused, static_graph: None leaves the value alone.
        verdict: "works", "untested" (releases outside of what was run, or between two that
            disagree: the nearest verdict is used), "nothing" (no variant works) or "unknown".
        how: where the verdict comes from: `verdicts.How`, "" if from nowhere.
        instead: the nearest combinations that do work, if nothing here does or some batch fails.
        evidence: the release sets, or the fact, behind the verdict.
        untested: what was not run, as "torch 2.17".
        fails: kinds of batch that go wrong even so, as "differ: mismatch".
        options: every variant that was weighed, the chosen one first.
        notes: what the verdict does not hold: the same on another process group.
    """

    use_reentrant: bool | None = None
    find_unused: bool | None = None
    static_graph: bool | None = None
    verdict: str = "unknown"
    how: str = ""
    instead: tuple[str, ...] = ()
    evidence: str = ""
    untested: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    notes: tuple[str, ...] = ()

    def verdict_of(self, checkpointing: str) -> str:
        """What goes wrong with a variant wherever it was weighed; "" if it works somewhere."""
        tried = [option for option in self.options if option.checkpointing == checkpointing]
        found = [option.seen.verdict for option in tried if option.seen and option.broken]
        return found[0] if found and len(found) == len(tried) else ""


def choose(run: Run) -> Choice:
    """The checkpoint variant and wrap options that work for this run.

    "nothing" comes with `Choice.instead`. Depends only on what is equal on all ranks.
    """
    return answer(cases.of(run))


def answer(query: Query) -> Choice:
    """`choose` for a query that needs no run."""
    try:
        return replace(_answer(query), notes=tuple(verdicts.notes(query.wrap, query.releases)))
    except Exception as error:  # a table is damaged
        fault("reading the compatibility tables", error)
        return Choice(verdict="untested", untested=(_UNREADABLE,))


def untested(run: Run) -> tuple[str, ...]:
    """What of this run was not run by us: releases, a disagreement, or an unreadable table."""
    return choose(run).untested


def nothing(choice: Choice) -> Finding:
    """VG405, which says that nothing works here."""
    return Finding(
        "VG405",
        "error",
        f"this run would fail, whatever use_reentrant is: {choice.evidence.partition(': ')[0]}",
        advice=tuple(map(_advised, choice.instead))
        or "try other releases: nothing near these is known to work",
        evidence=f"{choice.evidence} ({choice.how})" if choice.how else choice.evidence,
    )


def _advised(instead: str) -> str:
    return f"turn {_OFF}" if instead == _OFF else f"use {instead}"


def _answer(query: Query) -> Choice:
    options = sorted(_options(query), key=_badness)
    best = options[0]
    if best.seen is None:
        if not verdicts.readable():
            return Choice(verdict="untested", untested=(_UNREADABLE,))
        return Choice(options=tuple(options))
    unknown = _untested(query, best)
    if all(option.broken is True and option.sure is True for option in options):
        return Choice(
            verdict="nothing",
            how=best.seen.how,
            instead=tuple(instead(query)),
            evidence=_evidence(best.seen),
            untested=unknown,
            options=tuple(options),
        )
    wrap = _wrap(query, best)
    return Choice(
        use_reentrant=_REENTRANT[best.checkpointing],
        find_unused=wrap.get("find_unused"),
        static_graph=wrap.get("static_graph"),
        verdict="works" if best.sure and verdicts.readable() else "untested",
        how=best.seen.how,
        instead=tuple(instead(_with_fails(query, best))) if best.fails else (),
        evidence=_evidence(best.seen),
        untested=unknown,
        fails=tuple(f"{batch}: {verdict}" for batch, verdict in best.fails),
        options=tuple(options),
    )


def _options(query: Query) -> Iterator[Option]:
    for wrap in query.wraps:
        for checkpointing in query.checkpointing:
            found = _known(query.required(wrap, checkpointing), query.releases)
            seen = _worst(found)
            doubts = sum(not each.ok and not each.sure for case, each in found if _real(case))
            fails: dict[str, str] = {}
            for case in query.possible(wrap, checkpointing):
                met = verdicts.look(case, query.releases)
                if met is not None and not met.ok:
                    fails.setdefault(case.batch, met.verdict)
            yield Option(wrap, checkpointing, seen, tuple(fails.items()), doubts)


def _real(case: Case) -> bool:
    return case.model == "qwen2_vl"


def _known(required: Iterable[Case], releases: Mapping[str, str]) -> list[tuple[Case, Seen]]:
    found = ((case, verdicts.look(case, releases)) for case in required)
    return [(case, seen) for case, seen in found if seen is not None]


def _worst(known: Iterable[tuple[Case, Seen]]) -> Seen | None:
    """The worst of what is known. A real model adds what was measured; a doubt only tips scales."""
    counted = [seen for case, seen in known if seen.sure or not _real(case)]
    # A certain failure, then an uncertain one, then an uncertain success.
    return min(counted, key=lambda seen: (seen.ok, not seen.sure if not seen.ok else seen.sure),
               default=None)  # fmt: skip


def _badness(option: Option) -> tuple[int, ...]:
    """What certainly works comes first, what certainly fails last; then fewer doubts, failures."""
    if option.seen is None:
        rank = 2
    elif option.broken:
        rank = 4 if option.sure else 3
    else:
        rank = 0 if option.sure else 1
    return rank, option.doubts, len(option.fails)


def _wrap(query: Query, best: Option) -> dict[str, bool]:
    """DDP's options, where the chosen wrap is not the one that will run anyway."""
    if best.wrap == query.wrap:
        return {}
    wanted = {"find_unused": best.wrap == "ddp_find_unused"}
    static = best.wrap == "ddp_static"
    if static or query.wrap == "ddp_static":
        wanted["static_graph"] = static
    return wanted


def _evidence(seen: Seen) -> str:
    if seen.how == "facts":
        return seen.where
    told = f"{seen.verdict}, {seen.how} on {seen.where}"
    return f"{told}: {seen.why}" if seen.why else told


def _untested(query: Query, best: Option) -> tuple[str, ...]:
    """Releases beyond those that were run; all in play where two that were run disagree."""
    if not verdicts.readable():
        return (_UNREADABLE,)
    required = query.required(best.wrap, best.checkpointing)
    axes = {name for case in required for name in case.decided_by}
    named = [name for name in _PACKAGES if name in axes and name in query.releases]
    beyond = tuple(n for n in named if not verdicts.reached(query.releases, n))
    if not beyond and not best.sure:
        return (" with ".join(f"{name} {query.releases[name]}" for name in named),)
    return tuple(f"{name} {query.releases[name]}" for name in beyond)


def _with_fails(query: Query, best: Option) -> Query:
    """The same, with the batches that go wrong among those that must work."""
    batches = (*query.batches, *(batch for batch, _ in best.fails if batch not in query.batches))
    return replace(query, batches=batches, also_batches=())


def instead(query: Query) -> Iterator[str]:
    """The nearest combinations that work: releases, strategies, the tower, checkpointing."""
    if query.strategy.startswith("zero"):
        oldest = newer(query, "deepspeed")
        if oldest:
            yield f"DeepSpeed >= {oldest}"
    for other in _OTHER.get(query.strategy, ()):
        if _works(replace(query, strategy=other, wrap=other)):
            yield _NAMES[other]
            break
    if any(tuning in cases.FROZEN for tuning in query.tuning):
        tuning = tuple(dict.fromkeys(cases.FROZEN.get(t, t) for t in query.tuning))
        if _works(replace(query, tuning=tuning)):
            yield "a frozen tower (if it is not meant to train)"
    lacking = {"differ", "text", "image_then_text"} & set(query.batches)
    if lacking and _works(replace(query, batches=("images", "differ_dummy"))):
        yield "a dummy image in text-only batches"
    if query.checkpointing != ("none",) and _works(replace(query, checkpointing=("none",))):
        yield _OFF


def newer(query: Query, name: str) -> str:
    """The oldest newer release with which something certainly works; "" if there is none."""
    now = verdicts.base(query.releases.get(name))
    for release in verdicts.releases_of(name):
        if now is not None and release > now:
            releases = {**query.releases, name: str(release)}
            if _works(replace(query, releases=releases)):
                return str(release)
    return ""


def _works(query: Query) -> bool:
    return any(o.sure and not o.broken for o in _options(query))
