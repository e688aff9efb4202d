"""What all ranks decide by, and whether they decided alike.

Through the rendezvous store, never by a collective, and never waiting at a step. All ranks act on
one decision (`vlmguard.runtime.ballot`): so they plan alike, however far apart they come.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, as_data, listed
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.runtime import exchange, ranks
from vlmguard.runtime.ballot import Ballot, Decision

_DECIDED, _POSTED = "decision", "posted plan"
_KINDS = {
    "PadWithBlank": "blank images",
    "DummyImage": "dummy images in the data",
    "MeanLoss": "the loss as the model means it",
}


def decided(
    state: RunState, world: int, releases: Mapping[str, str] | None, rows: Any = None
) -> Decision | None:
    """What all ranks act on: settings, releases and kinds of rows of each; asked once a run.

    Args:
        releases: of this rank; None if a fault of ours keeps it from deciding: nobody waits for it.
        rows: what its data hold, as JSON.

    Returns:
        None where there is no store.
    """
    if _DECIDED not in state.kept:
        mine = None if releases is None else {**_basis(state, releases), "rows": rows}
        wait = 0.0 if mine is None else state.settings.wait
        state.kept[_DECIDED] = exchange.decide(state.number, world, mine, wait)
        exchange.let_go()
    return state.kept[_DECIDED]  # type: ignore[no-any-return]


def basis(state: RunState, run: Run) -> Finding | None:
    """Compare releases and settings with those of the ranks that were heard."""
    if run.world < 2:
        return None
    decision = decided(state, run.world, run.releases)
    mine = _basis(state, run.releases)
    for number, value in decision.values if decision is not None else ():
        theirs = value and {key: value[key] for key in mine}
        if theirs and theirs != mine:
            shown = _parted(mine, theirs)
            return _finding("have different settings or releases", number, shown, _SAME)
    return None


def unheard(state: RunState, run: Run) -> str:
    """One line about ranks that were not heard in time; "" if all were, or there is no store."""
    decision: Decision | None = state.kept.get(_DECIDED)
    if run.world < 2 or decision is None or decision.known:
        return ""
    rest = "nothing is assumed about the other ranks' rows, settings and releases"
    faulty = [rank for rank, value in decision.values if value is None]
    if faulty:
        return f"a fault of vlmguard's kept rank {faulty[0]} from telling its rows; {rest}"
    if not 0 < decision.heard <= run.world:
        return f"the ranks could not be asked through the rendezvous store; {rest}"
    waited = f"{decision.heard} of {run.world} ranks had come when the wait for all ended"
    return f"{waited} (VLMGUARD_WAIT={state.settings.wait:g} s here); {rest}"


def plan(state: RunState, run: Run, wanted: Plan) -> None:
    """Tell the other ranks what is changed here."""
    if run.world > 1:
        _post(state, [as_data(remedy) for remedy in wanted.remedies])


def nothing(state: RunState) -> None:
    """Tell them that this rank changes nothing, because of a fault of ours: others that do change
    something stop at the first step, and do not wait for this one for ever."""
    world = ranks.world() if state.run is None else state.run.world
    if world > 1:
        decided(state, world, None)
        _post(state, [])


def token(state: RunState) -> str | None:
    """Names this run's ranks in marks that they leave for each other: an earlier membership that
    used the same keys had another. None where ranks have no decision in common."""
    decision: Decision | None = state.kept.get(_DECIDED)
    return "" if decision is None else decision.token or None


def look(state: RunState) -> Finding | None:
    """At the first step, without waiting: whether a rank has planned other changes."""
    ballot, mine = _plans(state), state.kept.get(_POSTED)
    if ballot is None or mine is None:
        return None
    try:
        if ballot.different() < 2:
            return None
        others = [found for found in ballot.values() if found[1] != mine]
        number, theirs = next(found for found in others if ballot.holders(found[1]) > 0)
    except Exception:  # no rank holds another plan any more, or the store failed
        return None
    finally:
        exchange.let_go()
    return _finding(
        "planned different changes", number, (_words(mine, theirs), _words(theirs, mine)), _FAULT
    )


_SAME = "give all ranks the same settings and releases"
_FAULT = (
    "compare both ranks' models, arguments, VG902 lines",
    "set VLMGUARD=off on all ranks",
)


def _basis(state: RunState, releases: Mapping[str, str]) -> dict[str, Any]:
    used = state.settings
    rules = {code: str(policy) for code, policy in sorted(used.rules.items())}
    return {"settings": used.digest, "rules": rules, "releases": dict(sorted(releases.items()))}


def _plans(state: RunState) -> Ballot | None:
    """Plans made from one decision: those of other ranks, or of an earlier membership, are not
    compared."""
    decision: Decision | None = state.kept.get(_DECIDED)
    if decision is None or not decision.token:
        return None
    return exchange.ballot(f"plan/{decision.token}", state.number)


def _post(state: RunState, data: list[Any]) -> None:
    ballot, before = _plans(state), state.kept.get(_POSTED)
    data = state.kept[_POSTED] = json.loads(json.dumps(data))  # as the store returns it
    if ballot is None or before == data:
        return
    with contextlib.suppress(Exception):
        if before is None:
            ballot.lean(ranks.rank(), data)
        else:
            ballot.replace(ranks.rank(), before, data)
    exchange.let_go()


def _finding(
    what: str, number: int, shown: Sequence[str], advice: str | tuple[str, ...]
) -> Finding:
    """``shown``: what this rank has, what the other one has, and how much more differs."""
    here = ranks.rank()
    one, two = sorted([(here, shown[0]), (number, shown[1])])
    each = f"rank {one[0]}: {one[1]}; rank {two[0]}: {two[1]}{''.join(shown[2:])}"
    why = f"Ranks {one[0]} and {two[0]} {what} ({each})"
    return Finding("VG406", "error", why, scope="rank", advice=advice)


def _parted(mine: dict[str, Any], theirs: dict[str, Any]) -> tuple[str, str, str]:
    """The first setting or release in which two ranks differ, of each of them, and how many more
    there are; all of them are in the headers of the ranks' reports."""
    both = [_flat(mine), _flat(theirs)]
    keys = sorted(key for key in {**both[0], **both[1]} if both[0].get(key) != both[1].get(key))
    named = [key for key in keys if key != "settings"] or keys
    one, two = (f"{named[0]}={each.get(named[0], 'unset')}" for each in both)
    return one, two, f"; {len(named) - 1} more" if len(named) > 1 else ""


def _flat(basis: dict[str, Any]) -> dict[str, str]:
    return {"settings": basis["settings"], **basis["rules"], **basis["releases"]}


def _words(data: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    """What a plan as it was posted has more than another one, in words: "none" for nothing."""
    told = [_remedy(each) for each in data if each not in other]
    return (", ".join(told) if len(told) < 3 else listed(told)) or "none"


def _remedy(data: dict[str, Any]) -> str:
    kind = data["kind"]
    if kind == "Freeze":
        return f"{', '.join(data['what'])} frozen"
    values = (f"{key}={value}" for key, value in data.items() if key != "kind")
    return _KINDS.get(kind) or ", ".join(values) or kind
