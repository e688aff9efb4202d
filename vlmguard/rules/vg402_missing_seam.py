"""A framework release without a place that we hook, or a hook that something replaced.

What it does
    Names seams of the adapter that the installed release does not have. Also names seams whose
    function something else replaced after we wrapped it.

Why it is bad
    The checks that need the seam do not run. Training goes on.

When it is wrong
    A feature that the release lacks has no seam and needs none: such seams are optional.

Example
    a framework release that moved a class

Use instead
    Update vlmguard; `vlmguard doctor -v` lists every seam.

Evidence
    Seam tables of the adapters.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, listed
from vlmguard.core.hookspecs import hookimpl

CODE = "VG402"
NAME = "missing-seam"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    release = f"{run.framework} {run.releases.get(run.framework, '')}".strip()
    told = []
    if run.missing_seams:
        place = "" if run.lost_seams else f" in {release}"
        told.append(f"vlmguard cannot wrap {listed(run.missing_seams, 1)}{place}")
    if run.lost_seams:
        told.append(f"something replaced {listed(run.lost_seams, 1)}")
    if not told:
        return None
    return Finding(
        CODE,
        "warning",
        f"checks are off: {'; '.join(told)}",
        advice="update vlmguard; vlmguard doctor -v lists all",
        evidence="; ".join(
            f"{what}: {', '.join(names)}"
            for what, names in (("missing", run.missing_seams), ("replaced", run.lost_seams))
            if names
        ),
    )
