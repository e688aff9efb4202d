"""A release that the compatibility table does not hold.

What it does
    Names torch or deepspeed releases outside of those that were run.

Why it is bad
    A default or a verdict may have changed; the nearest release's verdict is applied.

When it is wrong
    It is a note: nothing is known to be wrong.

Example
    a torch released last week

Use instead
    `vlmguard doctor` lists what was run.

Evidence
    compat/choice.toml.
"""

from __future__ import annotations

from vlmguard import compat
from vlmguard.facts import Finding, Run
from vlmguard.hookspecs import hookimpl

CODE = "VG401"
NAME = "untested-release"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    releases = compat.untested(run)
    if not releases:
        return None
    return Finding(
        CODE,
        "note",
        f"{', '.join(releases)} was not run by us; the nearest release's verdict is used",
        advice="vlmguard doctor lists what was run",
    )
