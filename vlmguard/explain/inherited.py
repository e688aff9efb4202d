"""Variables in front of a command, where the log shows that srun hands none of them on."""

from __future__ import annotations

import re

from vlmguard.explain.logfacts import Facts

_IN_FRONT = re.compile(
    r"((?:[A-Z][A-Z0-9_]{2,60}=[^\s,]{1,200} ){1,6})in front of the (?:same )?command(?![\w-])"
)


def through_srun(said: str, facts: Facts) -> str:
    """``said`` with its variables behind srun's own --export, which lets no others through."""
    match = _IN_FRONT.match(said) if "stepexport" in facts.said else None
    if match is None:
        return said
    pairs = ",".join(match[1].split())
    now = facts.said["stepexport"]
    listed = "ALL" if now == "NONE" else now
    return (
        f"srun --export={listed},{pairs} … (the rest as it was: --export={now} of this log hands "
        f"on no others){said[match.end() :]}"
    )
