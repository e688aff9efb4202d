"""Two remedies set one thing to different values; nothing is applied.

What it does
    Says which key two findings disagree about, and leaves the run as the user wrote it.

Why it is bad
    If only one of two contradicting changes were made, the run would have a combination of
    settings that nobody has tried.

When it is wrong
    Never. vlmguard's own rules take their values from one table and cannot contradict each other.
    So one of the two findings comes from a rule of another plug-in.

Example
    A plug-in's rule asks for `use_reentrant=True` where `compat.choose` says False

Use instead
    Switch one of the rules off, for example VG101=off.

Evidence
    A property of vlmguard's own planner: vlmguard/core/plan.py and its tests.
"""

from __future__ import annotations

CODE = "VG901"
NAME = "contradiction"
DEFAULT = "error"
