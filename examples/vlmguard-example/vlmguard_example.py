"""A run on many ranks, told in every one of them.

What it does
    Says the framework and the number of ranks, once a rank. It never changes or stops a run.

Why it is bad
    It is not: this is the smallest rule there is, to be copied.

Example
    torchrun --nproc_per_node 8 -m your.training

Use instead
    XM101=off
"""

from vlmguard import Finding, Run, hookimpl

CODE = "XM101"
NAME = "many-ranks"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding:
    return Finding(CODE, "note", f"seen: {run.framework} on {run.world} ranks", scope="rank")
