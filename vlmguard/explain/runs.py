"""A file to which several runs were appended: the last of them is what the user asks about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from vlmguard.explain import prompts, starts
from vlmguard.explain.lines import Line
from vlmguard.explain.prompts import Command
from vlmguard.explain.starts import Log, Run

# First words of a launcher, a tracker or a job. They count only behind an end: ranks repeat them.
_STARTING = (
    "Setting OMP_NUM_THREADS environment variable for each process",
    "wandb: Tracking run with wandb version",
    "distributed tasks at: ",
    "run sh: `",
    "Setting ds_accelerator to",
    "The following values were not passed to `accelerate launch`",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "Job started",
    "Starting job",
    "Unable to find hostfile, will proceed with training with local resources only",
)
_ENDED = (
    "ChildFailedError",
    "exits with return code",
    "CANCELLED AT",
    "exits successfully.",
    "train_runtime",
    "CalledProcessError: Command",
)
_NODE = re.compile(r"node rank: [1-9]|--node_rank['\",= ]{1,5}[1-9]")
_LSF = "Sender: LSF System"
_BELOW = "The output (if any) follows:"
_ABOVE = "The output (if any) is above this job summary"


def last(kept: list[Line]) -> tuple[list[Line], int, Line | None]:
    """The lines of the last run, how many runs came before it, how the one before it ended."""
    if any(_LSF in line.raw for line in kept):
        kept, jobs = _last_job(kept)
        if jobs:
            return kept, jobs, None
    log = Log(kept)
    start, told = 0, [Run(log)]
    launched = False
    typed: set[Command] = set()
    for number, line in enumerate(kept):
        if _typed_again(line, typed) or _starts(kept, number, told, launched):
            start, launched = number, False
            told.append(Run(log))
        ended = _any(_ENDED, line.raw)
        launched = launched or ended
        told[-1].read(line, ended)
    over = [run.over or run.all_over for run in told[:-1]]
    return kept[start:], len(over), over[-1] if over else None


def _typed_again(line: Line, typed: set[Command]) -> bool:
    """Whether a shell is told to run a script that it ran before: whatever that did is over.

    On another node, or by another rank's number, it is a part of the same run.
    """
    new = prompts.command(line)
    if new is None:
        return False
    again = any(new.host == old.host and new.scripts & old.scripts for old in typed)
    typed.add(new)
    return again and _NODE.search(line.raw) is None


def _starts(kept: list[Line], number: int, told: list[Run], launched: bool) -> bool:
    """Whether the next run begins here, ``told`` being those so far."""
    last = told[-1]
    if not launched and not last.ended:
        return False
    if not _any(_STARTING, kept[number].raw):
        return last.ended and starts.anew(kept, number, told)
    if launched:
        return not _other_node(kept[number : number + 3])
    return last.alone and not starts.other_script(kept, number, last)


def _other_node(some: list[Line]) -> bool:
    """Whether a launcher of the same run on a further node begins, another's having ended."""
    return any(_NODE.search(line.raw) for line in some)


def _any(words: Iterable[str], raw: str) -> bool:
    return any(word in raw for word in words)


def _last_job(kept: list[Line]) -> tuple[list[Line], int]:
    """LSF's report of a job stands before its output, or behind it; then it is read behind it."""
    heads = [n for n, line in enumerate(kept) if _LSF in line.raw]
    behind = [n for n, line in enumerate(kept) if _ABOVE in line.raw]
    if behind:
        fresh = behind[-1] < len(kept) - 20 and heads[-1] < behind[-1]  # another job has begun
        cuts = behind if fresh else behind[:-1]
        return kept[cuts[-1] + 1 if cuts else 0 :], len(cuts)
    job = kept[heads[-1] :]
    split = next((n for n, line in enumerate(job) if _BELOW in line.raw), None)
    if split is None:
        return job, len(heads) - 1
    report, output = job[:split], job[split + 1 :]
    end = output[-1].at + 1 if output else job[-1].at
    moved = [replace(line, at=end + n) for n, line in enumerate(report)]
    return [*output, *moved], len(heads) - 1
