"""A job of no framework that is known: does it train all the same?"""

from __future__ import annotations

from vlmguard.check import launcher
from vlmguard.check.launcher import Job
from vlmguard.check.reading import scripts
from vlmguard.check.reading.named_files import Files


def may_train(job: Job, files: Files) -> bool:
    """Under a launcher, or by a word of its source: yes. A script that is not here: yes."""
    if job.launched:
        return True
    module = scripts.module(job.target, files)
    if not module:
        named = job.target.removeprefix("-m ")
        return named == job.target or not launcher.tool(named)
    return scripts.trains(module) or bool(scripts.absent(module))


def reason(job: Job, files: Files) -> str:
    """Why there is no verdict."""
    if "colossalai run" in job.chain:
        return f"{job.target}: a ColossalAI script sets its booster in its own code"
    module = scripts.module(job.target, files)
    if not module and may_train(job, files):
        return f"{job.target} is not on this disk"
    if not may_train(job, files):
        return f"{job.target} is not known to train"
    absent = scripts.absent(module)
    if absent:
        return f"{job.target} imports {absent[0]}, which is not on this disk"
    return f"{job.target} uses no framework that is known here"
