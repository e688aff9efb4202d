"""Someone ended the run."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_WHO = (
    Do(
        "nohup COMMAND > train.log 2>&1 &, or tmux: the terminal was closed and took the run "
        "with it",
        "none",
        when=("SIGHUP", "Hangup", "exitcode: -1)", "= 129"),
    ),
    Do(
        "sacct -j {job} --format=JobID,State%30,ExitCode,Reason,End: CANCELLED by whom, or "
        "TIMEOUT, PREEMPTED, OUT_OF_MEMORY?",
        "none",
        kind="who",
    ),
    Do(
        "sacct -S now-7days -u $USER --format=JobID,JobName%30,State%30,ExitCode,End: who "
        "ended it?",
        "none",
        when=("slurmstepd", "srun: "),
        unless=("KeyboardInterrupt", "SIGINT", "^C"),
        kind="who",
    ),
    Do(
        "last -x | head -5; dmesg -T | grep -i -E 'killed process|oom' | tail -5: a restart or "
        "the kernel; else somebody's kill, a closed terminal, or a supervisor (kubectl "
        "describe pod NAME)",
        "none",
        unless=(
            "KeyboardInterrupt",
            "SIGINT",
            "^C",
            "SIGHUP",
            "Hangup",
            "exitcode: -1)",
            "= 129",
        ),
        kind="who",
    ),
    Do(
        "sacct -j JOBID --format=JobID,State%30,ExitCode,Reason, or kubectl describe pod NAME: "
        "who ended it (JOBID: squeue's number, in the log's name); outside of a cluster: who "
        "typed kill or Ctrl-C?",
        "none",
        unless=("KeyboardInterrupt", "SIGINT", "^C"),
        kind="who",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """A run that was ended in front of its first step has no checkpoint."""
    if facts.steps is not None and facts.steps[0] == 0 and "saved" not in facts.said:
        return (*_WHO, Do("the same command again: it was ended before its first step", "none"))
    return (*_WHO, Do("resume", "the steps since it was written"))


FAILURE = Known(
    code="VG569",
    name="explain-ended-from-outside",
    title="The run was ended from outside (SIGTERM, Ctrl-C)",
    zh="运行被外部终止（SIGTERM 或 Ctrl-C）",
    why="the processes were asked to end: by a person, by the "
    "scheduler or by a supervisor; nothing before it failed in "
    "these lines",
    do=_do,
    wrong="If it hung before it was ended, the hang is the question: "
    "look at the time of the last step.",
    signs=(
        Sign("TERM_EXTERNAL_SIGNAL", where="line", releases="LSF"),
        Sign("TERM_ADMIN", where="line", releases="LSF"),
        Sign("TERM_FORCE_ADMIN", where="line", releases="LSF"),
        Sign("KeyboardInterrupt"),
        Sign("SignalException"),
        Sign("got signal: 15"),
        Sign("got signal: 2"),
        Sign("Signal 15 (SIGTERM)"),
        Sign("Received SIGTERM", where="line"),
        Sign("signal 15 (Terminated)", where="line"),
        Sign("KeyboardInterrupt", where="line"),
        Sign("Received termination signal", where="line"),
        Sign("Terminated by signal", where="line"),
        Sign("received signal SIGTERM", where="line"),
        Sign("SIGTERM"),
        Sign("SIGHUP"),
        Sign("CANCELLED AT", where="line", no=("DUE TO",)),
        Sign("Process got signal"),
        Sign("got signal: 1"),
        Sign("death signal, shutting down workers", where="line"),
        Sign("closing signal SIGHUP", where="line"),
        Sign("closing signal SIGINT", where="line"),
        Sign("Detected KeyboardInterrupt", where="line", releases="Lightning"),
        Sign("'kill_cmd'", releases="DeepSpeed's launcher at Ctrl-C, 0.9"),
    ),
    examples=(
        Example(
            "torch.distributed.elastic.multiprocessing.api.SignalException: "
            "Process 4242 got signal: 15",
            "torch/distributed/elastic/multiprocessing/api.py, 2.13.0",
        ),
        Example("KeyboardInterrupt", "made by causing it, Python 3.11"),
    ),
    evidence="torchrun's and Python's own messages.",
    order="end",
    narrow=-3,
)
