"""A remedy was applied, and the defect is still there.

What it does
    Reads the run again after the changes; a rule that asked for one and still fires is told here.

Why it is bad
    The run would be called mended, and fail as before.

When it is wrong
    Where the framework makes its decision after our second look: VG903=warn goes on.

Example
    A trainer that overwrites `use_reentrant` while it wraps the model

Use instead
    Report it; VLMGUARD=off runs without us.

Evidence
    vlmguard.guard.
"""

from __future__ import annotations

CODE = "VG903"
NAME = "no-effect"
DEFAULT = "error"
