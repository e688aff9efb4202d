"""vlmguard itself stopped the run, for a reason that it names."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_REASON = re.compile(
    r"stopped this run \([^)]{1,60}\)\. (VG\d{3}): "
    r"([^\n]{1,600}?)(?: To go on regardless|$)"
)


def _why(facts: Facts) -> str:
    match = _REASON.search(facts.message)
    return f"{match[1]}: {match[2]}" if match else "vlmguard saw a failure coming and ended the run"


def _do(facts: Facts) -> tuple[Do, ...]:
    match = _REASON.search(facts.message)
    code = match[1] if match else "CODE"
    return (
        Do(f"do what the message says; vlmguard rule {code} has the reasons", "none"),
        Do(f"VLMGUARD_RULES={code}=warn, to go on regardless", "what the rule saw will happen"),
    )


FAILURE = Known(
    code="VG571",
    name="explain-stopped",
    title="vlmguard stopped the run before it failed",
    zh="vlmguard 在故障发生前停止了训练",
    why=_why,
    do=_do,
    wrong="If the rule is mistaken, please report the line: a run that "
    "is right must not be stopped.",
    signs=(Sign("vlmguard stopped this run"),),
    examples=(
        Example(
            "vlmguard.core.errors.Stop: vlmguard stopped this run (rank "
            "0). VG106: Text-only rows skip "
            "the vision tower under zero3: in a step in which some ranks "
            "have them and others do not, "
            "they wait for each other for ever. freeze vision. To go on "
            "regardless: VLMGUARD_RULES=VG106=warn",
            "vlmguard/guard.py, 0.1.0",
        ),
    ),
    evidence="vlmguard's own message.",
    narrow=9,
)
