"""Whether the ranks decide alike: each posts what it decides by and what it decided.

Through the rendezvous store, never by a collective, and never waiting at a step.
"""

from __future__ import annotations

import json
from typing import Any

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, as_data
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.runtime import exchange, report


def basis(state: RunState, run: Run) -> Finding | None:
    """Post releases and settings, and compare them with the other ranks', for which it waits two
    seconds at most."""
    if run.world < 2:
        return None
    used = state.settings
    mine = {
        "settings": used.digest,
        "rules": {code: str(policy) for code, policy in sorted(used.rules.items())},
        "releases": dict(sorted(run.releases.items())),
    }
    return _compare(
        exchange.share("basis", state.number, mine, run.world), mine, "settings or releases"
    )


def plan(state: RunState, run: Run, wanted: Plan) -> None:
    """Post what will be done."""
    if run.world > 1:
        data = [as_data(remedy) for remedy in wanted.remedies]
        exchange.post("plan", state.number, data)


def nothing(state: RunState) -> None:
    """Post that this rank changes nothing, because of a fault of ours: others that do change
    something stop at the first step, and do not wait for this one for ever."""
    exchange.post("plan", state.number, [])


def look(state: RunState) -> Finding | None:
    """Once more, without waiting: ranks may have come too late for the first look."""
    if state.run is None or state.run.world < 2:
        return None
    mine = [as_data(remedy) for remedy in state.plan.remedies]
    return _compare(exchange.look("plan", state.number), mine, "what is to be changed")


def _compare(told: dict[int, Any] | None, mine: Any, what: str) -> Finding | None:
    here, mine = report.rank(), json.loads(json.dumps(mine))  # as the store gives theirs back
    for number, theirs in sorted((told or {}).items()):
        if number != here and theirs != mine:
            one, two = _parted(mine, theirs)
            return Finding(
                "VG406",
                "error",
                f"rank {here} and rank {number} have different {what}: {one} against {two}",
                scope="rank",
                advice="give all ranks the same settings and releases",
            )
    return None


def _parted(one: Any, two: Any) -> tuple[Any, Any]:
    """The parts in which two values differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        keys = [key for key in {**one, **two} if one.get(key) != two.get(key)]
        inner = {key: _parted(one.get(key), two.get(key)) for key in sorted(keys)}
        first = {key: pair[0] for key, pair in inner.items()}
        return first, {key: pair[1] for key, pair in inner.items()}
    return one, two
