"""A release that the compatibility tables do not hold.

What it does
    Names releases of torch, deepspeed, transformers or peft that are newer or older than those
    that we ran. It also names a release between two that we ran and that gave different verdicts,
    and tables that cannot be read. It is a warning if the verdict for this run depends on that
    release, otherwise a note.

Why it is bad
    A default or a verdict may have changed. vlmguard uses the verdict of the nearest release.

When it is wrong
    Nothing is known to be wrong with the run. VG401=error stops such runs, VG401=off is silent.
    Unless the run is stopped, the verdict of the nearest release is used.

Example
    a torch released last week

Use instead
    `vlmguard doctor` shows the verdict for your releases. docs/compatibility.md shows what was run.

Evidence
    compat/verdicts.toml and compat/choice.toml.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, cut
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
        + (f"; vlmguard uses: {cut(choice.evidence, 44)}" if choice.evidence else ""),
        advice=(
            f"type vlmguard compat --strategy {run.strategy}",
            "VLMGUARD_RULES=VG401=error stops such runs",
        ),
        evidence=choice.evidence,
    )
