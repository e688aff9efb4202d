"""A release that the compatibility tables do not hold.

What it does
    Names torch, deepspeed, transformers or peft releases beyond those that were run, releases
    between two that were run and disagree, and tables that cannot be read. A warning where the
    verdict hangs on it, a note where another measured case answers.

Why it is bad
    A default or a verdict may have changed; the nearest release's verdict is applied.

When it is wrong
    Nothing is known to be wrong. VG401=error stops such runs, VG401=off is silent; the nearest
    verdict is applied either way.

Example
    a torch released last week

Use instead
    `vlmguard doctor` shows the verdict here, docs/compatibility.md what was run.

Evidence
    compat/verdicts.toml and compat/choice.toml.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG401"
NAME = "untested-release"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    choice = compat.choose(run)
    if not choice.untested:
        return None
    hangs = choice.verdict == "untested"
    named = ", ".join(choice.untested)
    return Finding(
        CODE,
        "warning" if hangs else "note",
        f"not measured: {named}"
        + (f"; vlmguard uses the nearest results: {choice.evidence}" if choice.evidence else ""),
        advice="vlmguard compat shows what works here; VLMGUARD_RULES=VG401=error stops such runs",
        evidence=choice.evidence,
    )
