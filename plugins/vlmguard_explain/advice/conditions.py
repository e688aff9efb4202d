"""The conditions of a step or a spelling on the run that failed; its releases."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vlmguard_explain.run.logfacts import Facts

_COMPARED = re.compile(r"([\w -]+?)([=~])(.*)", re.S)
_OF_RUN = "framework phase strategy zero tuning model message trace world".split()
_OF_RUN += "use_reentrant find_unused static_graph checkpointing freeze_tower".split()


def holds(condition: str, facts: Facts, values: Mapping[str, str]) -> bool:
    """Whether ``condition`` holds in this run.

    A word: the run's facts or values have it. "phase=save|load": a value is one of these.
    "model~smol": a value has the pattern. "trace=…": the traceback has the text. "typed=a|b": one
    of these is on the command line. "since=package 1.2": the release that is told is no older.
    "!…": the contrary; "… & …": both.
    """
    if " & " in condition:
        return all(holds(one, facts, values) for one in condition.split(" & "))
    if condition.startswith("!"):
        return not holds(condition[1:], facts, values)
    compared = _COMPARED.fullmatch(condition)
    if compared is None:
        return condition in facts.seen or condition in facts.fields or condition in values
    name, sign, wanted = compared.groups()
    if sign == "~":
        return re.search(wanted, _value(name, facts, values), re.I) is not None
    if name in ("typed", "batch"):
        return bool(set(wanted.split("|")) & set(facts.typed if name == "typed" else facts.kinds))
    if name == "since":
        return older(wanted, facts) is False
    if name == "trace":
        return wanted in facts.trace
    return _value(name, facts, values) in wanted.split("|")


def _value(name: str, facts: Facts, values: Mapping[str, str]) -> str:
    if name in _OF_RUN:
        value = getattr(facts, name)
        return "" if value is None else str(value)
    return facts.fields.get(name, "") or values.get(name, "")


def numbers(release: str) -> tuple[int, ...]:
    """A release as numbers."""
    return tuple(int(n) for n in re.findall(r"\d{1,6}", release)[:3])


def older(bound: str, facts: Facts) -> bool | None:
    """Whether the release that is told is older than the bound; None where none is told."""
    package, _, wanted = bound.partition(" ")
    release = facts.releases.get(package, "")
    return numbers(release) < numbers(wanted) if release else None
