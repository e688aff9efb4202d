"""The scheduler ended the job at its time limit."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    of = f" of {facts.steps[1]}" if facts.steps and facts.steps[1] else ""
    last = f", at step {facts.steps[0]}{of}" if facts.steps else ""
    return f"the job ran until its wall-clock limit{last}; the limit says nothing of the training"


def _do(facts: Facts) -> tuple[Do, ...]:
    """With the run's own clock it is told whether the same limit is enough for the rest."""
    left, took = facts.said.get("left", ""), facts.said.get("took", "")
    if not left or not took:
        return (Do("resume", _COST), *_STEPS, _MORE)
    if _seconds(left) < 0.9 * _seconds(took):
        enough = (
            f"; the same limit is enough: {left} were left by its own bar, {took} are behind it"
        )
        return (Do("resume", _COST, (("then", enough),)), *_STEPS, _MORE)
    limit = f"a limit of {_hours(left)}"
    if "slurm" in facts.said:
        limit = f"sbatch --time={_hours(left)} of the job's script"
    longer = f"; {limit}: {left} were left by its own bar"
    return (Do("resume", _COST, (("then", longer),)), *_STEPS, _MORE)


def _seconds(told: str) -> int:
    """Of "7:05:48"."""
    total = 0
    for part in told.split(":"):
        total = total * 60 + int(part)
    return total


def _hours(told: str) -> str:
    """A limit with some room: "9:00:00" of "7:05:48"."""
    return f"{_seconds(told) * 23 // 72000 + 1}:00:00"


_COST = "the steps since it was written"
_MORE = Do("ask for more time (#SBATCH --time), or save more often (save_steps)", "more disk")
_STEPS = (
    Do(
        "sacct -j {job} --format=JobID,State,Start,End,Elapsed,Timelimit: compare its end with "
        "the time of the last step; a long silence before it is a hang",
        "none",
        kind="job",
    ),
    Do(
        "qstat -xf JOBID: compare resources_used.walltime's end with the time of the last "
        "step; a "
        "long silence before it is a hang",
        "none",
        when=("PBS",),
        kind="job",
    ),
    Do(
        "compare the time of the last step with the job's end: sacct -j JOBID "
        "--format=Start,End,Elapsed,Timelimit; a long silence before the end is a hang",
        "none",
        kind="job",
    ),
    Do(
        "#SBATCH --signal=B:USR1@300 with a trap that saves",
        "none",
        unless=("PBS", "MOAB", "LSF", "TERM_RUNLIMIT"),
    ),
)


FAILURE = Known(
    code="VG530",
    name="explain-time-limit",
    title="The scheduler ended the job: its time was up",
    zh="作业到达调度系统的时间上限而被终止",
    why=_why,
    do=_do,
    wrong="A job that hangs runs into its limit too: look at the time of the last step.",
    signs=(
        Sign("TERM_CPULIMIT", where="line", releases="LSF"),
        Sign("TERM_DEADLINE", where="line", releases="LSF"),
        Sign("hit its timeout of", where="line", releases="Modal"),
        Sign("DUE TO TIME LIMIT", where="line"),
        Sign("PBS: job killed: walltime", where="line"),
        Sign("TERM_RUNLIMIT", where="line"),
        Sign("job killed: wall time limit exceeded", where="line"),
        Sign("DeadlineExceeded: Job was active", where="line"),
        Sign("exceeded its wall-clock limit", where="line"),
        Sign("walltime limit exceeded", where="line"),
        Sign("maximum time limit", where="line"),
        Sign("longer than specified deadline", where="line"),
        Sign("TERMINATED: time limit", where="line"),
        Sign("hard walltime", where="line"),
        Sign("exceeded wallclock limit", where="line", releases="Moab, Torque"),
        Sign("exceeded its walltime limit", where="line", releases="PBS"),
        Sign("exceeded hard wallclock time", where="line", releases="SGE"),
        Sign("exceeded time limit", where="line", no=("Poll",)),
        Sign("MaxRuntimeExceeded", where="line", releases="SageMaker"),
        Sign("MaxWaitTimeExceeded", where="line", releases="SageMaker"),
        Sign("exceeds job hard limit", where="line", also=("h_rt",), releases="SGE"),
        Sign("exceeds job hard limit", where="line", also=("h_cpu",), releases="SGE"),
        Sign("State: TIMEOUT", where="line", releases="seff"),
        Sign("JobState=TIMEOUT", where="line", releases="Slurm"),
    ),
    examples=(
        Example(
            "slurmstepd: error: *** JOB 4242 ON gpu-node-17 CANCELLED AT "
            "2026-01-12T08:00:21 DUE TO TIME LIMIT ***",
            "slurm/src/slurmd/slurmstepd/req.c, 23.11",
        ),
    ),
    evidence="Slurm's, PBS's and LSF's own messages.",
    narrow=5,
)
