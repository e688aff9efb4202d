"""vlmguard itself failed somewhere; training goes on without that part.

What it does
    Catches every exception of a rule, an adapter or the core, says it once, and lets the
    framework go on as if that part were not installed.

Why it is bad
    That part does not check the run any more.

When it is wrong
    Never.

Example
    A plug-in's rule that raises; a framework release whose objects have other fields

Use instead
    Report it, with the line that it printed.

Evidence
    vlmguard.runtime.faults.
"""

from __future__ import annotations

CODE = "VG902"
NAME = "our-fault"
DEFAULT = "warn"
