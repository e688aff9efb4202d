"""A third party's rule: says what it saw, in every rank."""

from vlmguard import Finding, Run, hookimpl

CODE = "XM101"
NAME = "example"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding:
    return Finding(CODE, "note", f"seen: {run.framework} on {run.world} ranks", scope="rank")
