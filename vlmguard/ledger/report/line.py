"""The one line of a run whose books balance; on a terminal of 100 columns two at most."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from vlmguard.core.findings import cut
from vlmguard.ledger.account import STATIONS
from vlmguard.ledger.report import figures, formatted
from vlmguard.ledger.report.figures import Record

_WIDTH = 100
_HEAD = len("vlmguard: ")
_REASON = 50


def text(records: Sequence[Record]) -> str:
    """What trains, on how much, at which learning rates, over how many ranks, and what could not
    be read. "" where a station differs: that was said."""
    states = {name: figures.over_all(records, name) for name in STATIONS}
    if not records or any(state == "differs" for state, _ in states.values()):
        return ""
    read = sum(state == "balances" for state, _ in states.values())
    unread = {name: why for name, (state, why) in states.items() if state == "cannot tell"}
    if not read and not unread:
        return ""
    balance = f"ledger: {_balance(records, read, unread)}"
    return _two_lines("; ".join(filter(None, (balance, _over(records), _trained(records[-1])))))


def _two_lines(told: str) -> str:
    first, *more = textwrap.wrap(
        told, _WIDTH, initial_indent=" " * _HEAD, subsequent_indent="    ", break_on_hyphens=False
    )
    rest = [cut(" ".join([more[0], *map(str.strip, more[1:])]), _WIDTH)] if more else []
    return "\n".join([cut(first, _WIDTH)[_HEAD:], *rest])


def _balance(records: Sequence[Record], read: int, unread: dict[str, str]) -> str:
    steps, end = formatted.steps(figures.steps(records)), "s" if len(records) == 1 else ""
    if not read:
        return f"cannot tell whether {steps} balance{end} ({_reasons(unread)})"
    some = f" at {read} of {read + len(unread)} stations" if unread else ""
    return f"{steps} balance{end}{some}" + (f" (cannot tell {_reasons(unread)})" if some else "")


def _reasons(unread: dict[str, str]) -> str:
    """Stations by the reason that they share."""
    names: dict[str, list[str]] = {}
    for name, why in unread.items():
        names.setdefault(cut(why, _REASON), []).append(name)
    told = ((formatted.listed(each), why) for why, each in names.items())
    return ", ".join(f"{each}: {why}" if why else each for each, why in told)


def _over(records: Sequence[Record]) -> str:
    ranks, targets = int(figures.number(records[-1].get("ranks")) or 1), figures.targets(records)
    over = f"{ranks} rank{'' if ranks == 1 else 's'}"
    return over if targets is None else f"{over}, {formatted.count(targets)} target tokens a step"


def _trained(record: Record) -> str:
    found = figures.towers(record)
    told = [f"{kind} {_tower(tower)}" for kind, tower in found.items() if tower.get("trained")]
    return "trained: " + ", ".join(told) if told else ""


def _tower(tower: dict[str, Any]) -> str:
    part, whole = (figures.number(tower.get(key)) or 0 for key in ("trained", "parameters"))
    share = formatted.count(part) + (f" of {formatted.count(whole)}" if part < whole else "")
    rates = formatted.rates(tower.get("lr"))
    return f"{share} (lr {rates})" if rates else share
