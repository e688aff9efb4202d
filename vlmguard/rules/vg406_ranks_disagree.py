"""Ranks that would not decide alike.

What it does
    Each rank posts what it decides by (releases, settings) and what it decided, through the
    rendezvous store that torchrun or `init_process_group` made; no collective is called. Ranks
    that posted something else are named, with both sides.

Why it is bad
    One rank mends its run and another does not: they hold different checkpoint variants or DDP
    options, and hang, or drift apart in silence.

When it is wrong
    Never: settings must be equal on all ranks. Facts of one rank alone are not compared.

Example
    VLMGUARD_RULES=VG101=off on rank 1 alone; another release of torch on the second node

Use instead
    Give all ranks the same settings and releases.

Evidence
    Own measurement: 2 gloo ranks, one with VG101=off: they kept different variants.
"""

from __future__ import annotations

CODE = "VG406"
NAME = "ranks-disagree"
DEFAULT = "error"
