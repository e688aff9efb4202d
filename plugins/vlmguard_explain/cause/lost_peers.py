"""Who only lost a peer: a rank that is gone looks like a broken network to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlmguard_explain.cause.candidates import Candidate
from vlmguard_explain.cause.exit_codes import crashed
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.match.catalogue import Known
from vlmguard_explain.run import launcher
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.lost_peers")
_T = words("cause.lost_peers")

_GONE, _NETWORK = "VG563", "VG536"
_FROM_BELOW = ("VG532", "VG533", "VG534", "VG543")  # a kernel, a driver or a scheduler says it
_OF_LINKS = ("VG536", "VG533", "VG588", "VG596", "VG542", "VG584", "VG540")


def apart(
    candidates: list[Candidate],
    digests: Sequence[Digest],
    gone: Known,
    ended: launcher.Exit | None,
) -> list[Candidate]:
    """The same, with a lost connection as "peer gone" where something else failed.

    That is: a rank raised what no broken link makes, a card or a machine failed, a process
    crashed, or a rank ended that lost no connection itself.
    """
    network = [c for c in candidates if c.code == _NETWORK]
    lost = [c for c in network if _P.peer.search(c.said)]
    ranks = {c.rank for c in lost}
    fell = any(c.event is None and c.code in _FROM_BELOW for c in candidates)
    ends = (e for d in digests for e in d.exits if e.first or e.rank is None)
    fell = fell or any(crashed(e) for e in ends)
    fell = fell or any(_own_failure(c) for c in candidates if c.rank not in ranks - {None})
    before = None not in ranks and ended is not None and ended.rank not in {*ranks, None}
    refused = all(_P.refused.search(c.said) for c in network)
    told = refused and any(c.code == _GONE and c.event is not None for c in candidates)
    secondary = network if told else lost if fell or before else []
    return [replace(c, known=gone) if c in secondary else c for c in candidates]


def _own_failure(candidate: Candidate) -> bool:
    """Whether a rank raised a failure that no broken link makes."""
    event = candidate.event
    if event is None or candidate.order or not event.type or candidate.code in _OF_LINKS:
        return False
    return candidate.known is not None or event.name in _T.of_code
