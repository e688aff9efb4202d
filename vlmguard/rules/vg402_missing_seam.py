"""A framework release without a place that we wrap.

What it does
    Names seams of the adapter that the installed release does not have.

Why it is bad
    What the seam is there for is not checked; training goes on.

When it is wrong
    A feature that the release lacks has no seam and needs none: such seams are optional.

Example
    a framework release that moved a class

Use instead
    Update vlmguard; `vlmguard doctor` shows every seam.

Evidence
    Seam tables of the adapters.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG402"
NAME = "missing-seam"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if not run.missing_seams:
        return None
    return Finding(
        CODE,
        "warning",
        f"{run.framework} {run.releases.get(run.framework, '')} has no seam "
        f"{', '.join(run.missing_seams)}: what it checks is not checked",
        advice="update vlmguard; vlmguard doctor shows the seams",
    )
