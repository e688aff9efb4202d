"""Two remedies set one thing to different values; nothing is applied.

What it does
    Says which key two findings disagree about, and leaves the run as the user wrote it.

Why it is bad
    Half a plan is worse than none: the run would be neither yours nor ours.

When it is wrong
    Never; the remedies of our own rules come from one table, so it takes another's rule.

Example
    A plug-in's rule asks for `use_reentrant=True` where `compat.choose` says False

Use instead
    Switch one of the rules off, for example VG101=off.

Evidence
    vlmguard.core.plan.
"""

from __future__ import annotations

CODE = "VG901"
NAME = "contradiction"
DEFAULT = "error"
