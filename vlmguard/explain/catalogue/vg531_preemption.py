"""The scheduler took the nodes away."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_RESUME = Do("resume", "the steps since it was written")
_OFTEN = "a priorityClassName that is not preempted, or save more often"
_STEPS = (
    Do(
        "kubectl get events --sort-by=.lastTimestamp | grep -i -E 'preempt|evict': by which "
        "pod; then create the job again, with its checkpoint",
        "none",
        when=("pod", "Pod", "kube"),
    ),
    Do(
        "squeue -j {job}: it is there, PENDING: Slurm put it back and starts it again by itself, "
        "so that the script has to take its newest checkpoint up; not there: sbatch the same "
        "script with it",
        "none",
        when=("PREEMPT",),
    ),
    _RESUME,
    Do(
        "sacct -j {job} --format=JobID,State%30,Reason,End: a person, or preemption?",
        "none",
        unless=("pod", "Pod", "kube", "PREEMPT"),
    ),
    Do(
        "#SBATCH --requeue and a save on SIGTERM, or save more often",
        "more disk",
        unless=("pod", "Pod", "kube"),
    ),
    Do(
        _OFTEN,
        "more disk",
        when=("pod", "Pod", "kube"),
    ),
    Do("a queue or an instance that is not preempted"),
)
_ON_PODS = (
    _RESUME,
    Do(_OFTEN, "more disk"),
    Do(
        "nodes that are not spot or preemptible, in the pod's nodeSelector and tolerations",
        "a dearer node",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """No words of Slurm's for a run in a pod."""
    if "pod" not in facts.said or "slurm" in facts.said:
        return _STEPS
    return _ON_PODS if "PreemptedByProvider" in facts.message else (*_STEPS[:1], *_ON_PODS)


FAILURE = Known(
    code="VG531",
    name="explain-preemption",
    title="The job was preempted or cancelled",
    zh="作业被抢占或取消",
    why="the scheduler or a person took the machine away; nothing was "
    "wrong with the training itself",
    do=_do,
    wrong="CANCELLED without a reason may be a person: sacct -j JOB tells who.",
    signs=(
        Sign(" PREEMPTED ", where="line", releases="sacct"),
        Sign("interrupted due to worker preemption", where="line", releases="Modal"),
        Sign("DUE TO PREEMPTION", where="line"),
        Sign("DUE to SIGNAL Terminated", where="line"),
        Sign("CANCELLED BY UID", where="line"),
        Sign("Spot interruption", where="line"),
        Sign("spot interruption", where="line"),
        Sign("interruption notice", where="line", releases="AWS"),
        Sign("spot instance interruption", where="line"),
        Sign("instance-action", where="line"),
        Sign("The node was preempted", where="line"),
        Sign("Evicted: ", where="line"),
        Sign("Preempted by scheduler", where="line"),
        Sign("Pod was evicted", where="line"),
        Sign("DUE TO JOB REQUEUE", where="line"),
        Sign("Preempting job", where="line"),
        Sign("preemption notice", where="line"),
        Sign("termination is imminent", where="line", releases="GCP"),
        Sign("instance is being preempted", where="line", releases="GCP"),
        Sign("Spot Instance termination", where="line", releases="AWS"),
        Sign("Spot request", where="line", also=("terminat",), releases="AWS"),
        Sign("marked for termination", where="line", releases="AWS"),
        Sign("reclaimed by the scheduler", where="line"),
        Sign("has been preempted", where="line"),
        Sign("was preempted", where="line"),
        Sign("Preempted by pod", where="line", releases="Kubernetes"),
        Sign("preempted by a higher priority", where="line"),
        Sign("Spot Instance interruption", where="line"),
        Sign("CANCELLED AT", where="line", also=("*** JOB",), no=("DUE TO",), releases="Slurm"),
        Sign("TERM_OWNER", where="line", releases="LSF"),
        Sign("TERM_PREEMPT", where="line", releases="LSF"),
        Sign("Allocation was revoked for", where="line", releases="Slurm"),
        Sign("has been revoked", where="line", also=("allocation",), releases="Slurm"),
        Sign("srun: Job has been cancelled", where="line", releases="Slurm"),
        Sign("Job deleted at request of", where="line", releases="PBS"),
        Sign("State: CANCELLED", where="line", releases="seff"),
        Sign("State: PREEMPTED", where="line", releases="seff"),
        Sign("JobState=PREEMPTED", where="line", releases="Slurm"),
    ),
    examples=(
        Example(
            "slurmstepd: error: *** JOB 4242 ON gpu-node-17 CANCELLED AT "
            "2026-01-12T08:00:21 DUE TO PREEMPTION ***",
            "slurm/src/slurmd/slurmstepd/req.c, 23.11",
        ),
    ),
    evidence="Slurm's and Kubernetes' own messages.",
    narrow=4,
)
