"""A remedy was applied, and the defect is still there.

What it does
    Reads the run again after the changes. Reports each rule that asked for a change and still
    has a finding.

Why it is bad
    vlmguard would report the run as fixed, and the run would fail as before.

When it is wrong
    If the framework makes its decision after vlmguard reads the run again. With VG903=warn the
    run goes on.

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
