"""How ranks ended: one `Outcome` a rank, one `Result` a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from vlmguard.ranks.collective_calls import Call

_TRANSPORT = re.compile(
    r"gloo[/:]|Connection closed by peer|Connection reset|Broken pipe|op\.preamble|EnforceNotMet"
    r"|Read timeout|Timed out waiting",
)
"""What gloo says when the other side is gone or sent something else: never the cause itself."""


@dataclass(frozen=True)
class Outcome:
    """One rank's end.

    Attributes:
        state: "returned", "raised", "died" (no word left) or "stopped" (by us, after another rank).
        value: what the work returned.
        error: the exception's class name.
        message: the exception's text, or the last of a dead rank's output.
        exit_code: the exit code of a rank that died; negative is a signal's number.
        frames: where it raised, outermost first: "package/file.py:line in function".
        output: the end of what it printed, standard error included.
    """

    rank: int
    state: str
    value: Any = None
    error: str | None = None
    message: str | None = None
    exit_code: int | None = None
    frames: Sequence[str] = ()
    output: str = ""

    @property
    def failed(self) -> bool:
        """Whether it ended badly by itself."""
        return self.state in ("raised", "died")

    @property
    def is_transport(self) -> bool:
        """Whether it failed because another rank was gone or sent something else."""
        return self.failed and bool(_TRANSPORT.search(self.message or ""))


@dataclass(frozen=True)
class Site:
    """Where a rank stood when ranks waited for each other."""

    rank: int
    call: str
    phase: str
    site: str


@dataclass(frozen=True)
class Result:
    """A run's end.

    Attributes:
        verdict: "ok" (all returned), "crash", "hang" or "mismatch".
        outcomes: one a rank.
        calls: what each rank asked of its group, in order; empty lists without a group.
        sites: both sides of a hang or mismatch.
        seconds: wall clock.
        late: of a hang: the time was over and ranks still moved; they may only be slow.
    """

    verdict: str
    outcomes: Sequence[Outcome]
    calls: Sequence[Sequence[Call]]
    sites: Sequence[Site] = field(default=())
    seconds: float = 0.0
    late: bool = False

    @property
    def cause(self) -> Outcome | None:
        """The first rank whose failure is its own; None without one."""
        failed = [outcome for outcome in self.outcomes if outcome.failed]
        return next((o for o in failed if not o.is_transport), failed[0] if failed else None)


def conclude(
    outcomes: Sequence[Outcome],
    calls: Sequence[Sequence[Call]],
    stuck: str | None,
    seconds: float,
) -> Result:
    """One verdict from all ends.

    stuck: "hang" or "mismatch" where ranks were found waiting for each other, else None.
    """
    own = any(outcome.failed and not outcome.is_transport for outcome in outcomes)
    lost = any(outcome.is_transport for outcome in outcomes)
    if own:
        return Result("crash", outcomes, calls, (), seconds)
    differing = parting(calls)
    if stuck or lost:
        if differing is not None:
            return Result("mismatch", outcomes, calls, sites(calls, differing), seconds)
        # A rank ended well while others waited for it: gloo notices the closed connection.
        if stuck or any(outcome.state == "returned" for outcome in outcomes):
            return Result(stuck or "hang", outcomes, calls, _last(outcomes, calls), seconds)
        return Result("crash", outcomes, calls, (), seconds)
    return Result("ok", outcomes, calls, (), seconds)


def parting(calls: Sequence[Sequence[Call]]) -> tuple[int, int] | None:
    """(group, number) of the first call that ranks of a group did not issue alike.

    A rank that has not come so far yet does not differ.
    """
    groups = sorted({call.group for log in calls for call in log})
    for group in groups:
        logs = [[c for c in log if c.group == group and c.compared] for log in calls]
        for number, row in enumerate(zip_longest(*[log for log in logs if log])):
            if len({call.signature for call in row if call is not None}) > 1:
                return group, number
    return None


def sites(calls: Sequence[Sequence[Call]], where: tuple[int, int]) -> list[Site]:
    """Where each rank stood at a `parting`."""
    group, number = where
    found = []
    for rank, log in enumerate(calls):
        own = [call for call in log if call.group == group and call.compared]
        found.append(_site(rank, own[number] if number < len(own) else None, "not there yet"))
    return found


def _last(outcomes: Sequence[Outcome], calls: Sequence[Sequence[Call]]) -> list[Site]:
    ended = {outcome.rank for outcome in outcomes if outcome.state == "returned"}
    return [
        _site(rank, None, "ended")
        if rank in ended
        else _site(rank, log[-1] if log else None, "not there yet")
        for rank, log in enumerate(calls)
    ]


def _site(rank: int, call: Call | None, otherwise: str) -> Site:
    if call is None:
        return Site(rank, "none", "", otherwise)
    return Site(rank, call.signature, call.phase, call.site)
