"""Who only lost a peer: a rank that is gone looks like a broken network to the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vlmguard.explain import launcher
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known

_GONE, _NETWORK = "VG563", "VG536"
_REFUSED = re.compile(r"[Cc]onnection refused|exceeded error retry count")
_CLOSING = "has failed to shutdown the rendezvous"  # torchrun's agent, of its own node
_REMOTE = re.compile(r"remote process exited|ncclRemoteError")
_PEER = re.compile(rf"{_REMOTE.pattern}|Got completion from peer|status=12")
_WATCHDOG = "Watchdog caught collective operation timeout"
_CUT_OFF = re.compile(r"NCCL error in[^\n]{0,300}unhandled cuda error")
_FROM_BELOW = ("VG532", "VG533", "VG534", "VG543")  # a kernel, a driver or a scheduler says it
_CRASHES = (-9, -11, -7, -4, -8, 137, 139)
_OF_CODE = (  # no link's, though nobody knows them
    "TypeError",
    "ValueError",
    "KeyError",
    "IndexError",
    "AttributeError",
    "NameError",
    "AssertionError",
    "ZeroDivisionError",
)
_OF_LINKS = ("VG536", "VG533", "VG588", "VG596", "VG542", "VG584", "VG540")


def told_apart(
    candidates: list[Candidate],
    digests: Sequence[Digest],
    by_code: dict[str, Known],
    ended: launcher.Exit | None,
) -> list[Candidate]:
    """Who is gone refuses the next connection: where one rank lost its peer no network failed.

    Nor where another rank raised what has nothing to do with it, or ended before these did, or
    a card or a machine failed.
    """
    if any(_CLOSING in d.text for d in digests):
        lost = [c for c in candidates if _lost_store(c)]
        candidates = [replace(c, known=by_code[_GONE]) if c in lost else c for c in candidates]
    candidates = _without_cut_off(candidates)
    fell = any(c.event is None and c.key[0] in _FROM_BELOW for c in candidates)
    fell = fell or any(_crashed(e) for d in digests for e in d.exits)
    if fell or _own_failure(candidates) or _ended_before(candidates, ended):
        lost = [c for c in candidates if c.key[0] == _NETWORK and _PEER.search(_said(c))]
        return [replace(c, known=by_code[_GONE]) if c in lost else c for c in candidates]
    if not any(c.key[0] == _GONE and c.event is not None for c in candidates):
        return candidates
    said = [c for c in candidates if c.key[0] == _NETWORK]
    if not all(_REFUSED.search(_said(c)) or _REMOTE.search(_said(c)) for c in said):
        return candidates
    return [replace(c, known=by_code[_GONE]) if c in said else c for c in candidates]


def _without_cut_off(candidates: list[Candidate]) -> list[Candidate]:
    """Less what NCCL's own call raises behind a watchdog that took the communicator down."""
    ended = [c for c in candidates if _WATCHDOG in _said(c)]
    return [
        c
        for c in candidates
        if not _CUT_OFF.match(_said(c))
        or not any(c.at > e.at and c.line.source == e.line.source for e in ended)
    ]


def _lost_store(candidate: Candidate) -> bool:
    """Whether an agent does not reach the store any more: as it closes, another's agent is gone."""
    said = candidate.event.type if candidate.event is not None else candidate.line.raw
    return "RendezvousConnectionError" in said


def _crashed(ended: launcher.Exit) -> bool:
    """Whether a launcher saw this one crash or be killed: of torchrun's table the first only."""
    return ended.code in _CRASHES and (ended.first or ended.rank is None)


def _ended_before(candidates: Sequence[Candidate], ended: launcher.Exit | None) -> bool:
    """Whether the rank that ended first is none of those that lost a peer."""
    lost = {c.rank for c in candidates if c.key[0] == _NETWORK}
    heard = bool(lost) and None not in lost
    return heard and ended is not None and ended.rank is not None and ended.rank not in lost


def _said(candidate: Candidate) -> str:
    return candidate.event.message if candidate.event is not None else candidate.line.raw


def _own_failure(candidates: Sequence[Candidate]) -> bool:
    """Whether a rank raised a failure that no broken link makes, and others lost a peer."""
    own = {
        _who(c)
        for c in candidates
        if c.order == 0
        and c.event is not None
        and (c.known is not None or c.event.name in _OF_CODE)
        and c.event.type
        and c.key[0] not in _OF_LINKS
    }
    lost = {_who(c) for c in candidates if c.key[0] == _NETWORK}
    return bool(own) and not own & lost


def _who(candidate: Candidate) -> tuple[int, int | None, int]:
    """The process that said it, as far as told: without a rank each traceback is one's own."""
    event = candidate.event
    alone = candidate.rank is None and event is not None and event.cause is None
    return candidate.line.source, candidate.rank, candidate.at if alone else -1
