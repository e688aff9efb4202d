"""Ranks that would not decide alike.

What it does
    Before training each rank tells the others its settings, its releases and its kinds of rows,
    through the rendezvous store that torchrun or `init_process_group` made; no collective is
    called. The last rank to arrive publishes one decision, and all ranks plan from it. A rank
    that has waited `VLMGUARD_WAIT` seconds publishes "unknown" instead. If the settings or
    releases of two ranks differ, the message names both. At its first step each rank checks,
    without waiting, whether another rank planned other changes from the same decision.

Why it is bad
    One rank changes its run and another does not. Then they hold different checkpoint variants or
    DDP options, and hang, or drift apart in silence.

When it is wrong
    Never: it stops the run only for values that it received. A rank that arrives late, or never,
    does not count as a difference.

Example
    VLMGUARD_RULES=VG101=off on rank 1 alone; another release of torch on the second node

Use instead
    Give all ranks the same settings and releases. If those are the same and the plans differ,
    the ranks differ in something else: the model, the arguments, or a fault of vlmguard's on one
    of them, which it reports as VG902. `VLMGUARD=off` on all ranks trains without the changes.

Evidence
    Own measurement: 2 gloo ranks, one with VG101=off: they kept different variants. Ranks that
    begin 3 and 8 s apart under ZeRO-2, ZeRO-3, FSDP2 and DDP, and 60 s apart under ZeRO-3: not
    stopped, and weights bitwise as of ranks that begin together.
"""

from __future__ import annotations

CODE = "VG406"
NAME = "ranks-disagree"
DEFAULT = "error"
