"""The kernel killed a process for memory of the host."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_OUTRIGHT = ("oom_kill", "oom-kill", "OOM Killed", "OOMKilled", "OUT_OF_ME", "out-of-memory")


def _why(facts: Facts) -> str:
    if any(said in facts.message for said in ("MemoryError", "bad_alloc", "allocate memory")):
        return "a process asked for memory of the host, and there was none left for it"
    if any(said in facts.message for said in _OUTRIGHT):
        return (
            "the kernel ended it since the memory that the job or machine has was used up: its "
            "log says so"
        )
    if "srun: error" in facts.message and "Killed" in facts.message:
        return (
            "a task of the step was killed with signal 9, and srun does not say by whom: mostly "
            "the kernel or the cgroup, for memory; a scancel or a kill -9 looks alike, and Slurm's "
            "own record of the job (State, MaxRSS) decides between them"
        )
    return (
        "the process was killed with signal 9: on training machines nearly always the kernel or "
        "the container's memory limit (cgroup)"
    )


_SAID = (
    "oom-kill",
    "OOMKilled",
    "low on resource",
    "MemoryPressure",
    "oom_kill",
    "out-of-memory",
    "Killed process",
    "OOM Killed",
    "MemoryError",
    "memory pressure",
    "bad_alloc",
    "llocate memory",
    "not enough memory",
    "Ray killed this worker",
    "node running low",
)
_STEPS = (
    Do(
        "qsub -l h_vmem=… with more than the line says (each slot counts by itself)",
        "none",
        when=("h_vmem",),
    ),
    Do(
        "{place} asks for that array: np.load(FILE, mmap_mode='r'), or its rows one by one; "
        "a size beyond this machine's (free -g) is mostly a wrong shape",
        "none",
        when=("Unable to allocate", "you tried to allocate"),
    ),
    Do(
        "free -g; ps -eo pid,rss,args --sort=-rss | head, on that node: Ray ended workers "
        "since its memory was nearly used up: fewer of them, or "
        "RAY_memory_usage_threshold=0.98 in front of ray start",
        "none",
        when=("memory pressure", "Ray killed this worker", "node running low on memory"),
    ),
    Do(
        "sacct -j {job} --format=JobID,State,MaxRSS,ReqMem: OUT_OF_MEMORY, or a MaxRSS near "
        "ReqMem: #SBATCH --mem=0 (all of the node's memory); else somebody ended it",
        "none",
        when=("slurm_script",),
        kind="who",
    ),
    Do(
        "dmesg -T | grep -i -E 'killed process|oom' | tail, on {onenode}: a line with "
        "python: "
        "it was memory (free -g: how much there is), and the next steps mend it; none: somebody or "
        "a supervisor ended it "
        "(Slurm: sacct -j JOBID --format=JobID,State,MaxRSS,ReqMem; Kubernetes: kubectl "
        "describe pod NAME, OOMKilled)",
        "none",
        kind="who",
        unless=_SAID,
    ),
    Do(
        "dmesg -T | grep -i -E 'killed process|oom' | tail, on that machine: a line with "
        "python: "
        "it was memory, and the next steps mend it; none: somebody or a supervisor ended it "
        "(Slurm: sacct -j JOBID --format=JobID,State,MaxRSS,ReqMem; Kubernetes: kubectl "
        "describe pod NAME, OOMKilled)",
        "none",
        kind="who",
        unless=_SAID,
    ),
    Do(
        "srun --mem=0 … (the rest as it was): --mem={stepmemory} on its line binds this step, and "
        "0 is all that its job has: #SBATCH --mem=0 in the script too (the whole node; where it is "
        "shared, four times as much in both)",
        "none",
        when=("slurmstepd", "srun: error"),
        unless=("memory pressure",),
        kind="more",
    ),
    Do(
        "#SBATCH --mem={memorymore} in place of --{memoryline} in the job's script ({memorynow} in "
        "all now; --mem=0, all of the node's, where the job has the node alone)",
        "none",
        when=("slurmstepd", "srun: error"),
        unless=("memory pressure",),
        kind="more",
    ),
    Do(
        "#SBATCH --mem=0 in the job's script (all of the node's memory; where the node is "
        "shared, more than the ReqMem that sacct -j {job} --format=JobID,State,ReqMem,MaxRSS "
        "shows)",
        "none",
        when=("slurmstepd", "srun: error"),
        unless=("memory pressure",),
        kind="more",
    ),
    Do(
        "#SBATCH --mem=0 (all of the node's memory; --mem=256G where the node is shared)",
        "none",
        when=("slurmstepd", "srun: error"),
        unless=("memory pressure",),
        kind="more",
    ),
    Do(
        "sacct -j {job} --format=JobID,State,MaxRSS,ReqMem: how much was asked for, how much used",
        "none",
        when=("oom-kill", "oom_kill", "out-of-memory", "OUT_OF_ME"),
        unless=("slurmstepd", "srun: error"),
    ),
    Do(
        "free -g; ps -eo pid,rss,args --sort=-rss | head: who holds the memory? Another "
        "program: "
        "end it; this one: the next steps",
        "none",
        when=("MemoryError", "bad_alloc", "allocate memory"),
    ),
    Do(
        "resources.limits.memory: 256Gi in the pod's specification (kubectl describe pod NAME "
        "says how much it had)",
        "none",
        when=("OOMKilled", "low on resource", "MemoryPressure"),
        kind="more",
    ),
    Do(
        "ask for more memory (#SBATCH --mem=256G, docker run --memory, resources.limits.memory "
        "of the pod)",
        "none",
        kind="more",
    ),
)
_WORKERS = Do("workers", "slower loading: each worker holds a copy")
_PRELOADED = Do(
    "{preloaded} false, in the command: each rank of the node holds its own copy of these data",
    "slower reading",
)
_SLICED = (
    "more communication; each rank loads its slice alone, where TrainingArguments are made before "
    "from_pretrained: else every rank of a node holds the whole model in host memory"
)
_LOAD = Do(
    "from_pretrained(…, torch_dtype=torch.bfloat16, low_cpu_mem_usage=True): each rank of the node "
    "loads a whole copy; one launcher a node (#SBATCH --ntasks-per-node=1); no optimizer offload",
    "none",
)
_OFFLOAD = Do("no_offload", "its states go to the cards: 12 bytes a parameter, over the ranks")


# Reading the optimizer's states of a checkpoint, which the first start had not to.
_WITHOUT = Do(
    "--model_name_or_path {checkpoint} --output_dir ANOTHER, without resuming: the first start had "
    "no optimizer's states to read, which take 12 bytes a parameter of host memory beside the "
    "run's own; with them only where free -g shows that much more (or swap)",
    "the optimizer's state and the place in the data are lost",
)


FULL = 60  # percent of the host that are in use before the optimizer's states, which are larger


def _more(facts: Facts) -> Do:
    """Memory for the states that the host was to hold beside what it held already."""
    return Do(
        "#SBATCH --mem=0 (docker run --memory, resources.limits.memory of the pod), or a larger "
        f"machine: {facts.said['hostmemory']} % of the host's memory were in use before the "
        "optimizer's states came to it, of 12 bytes a parameter",
        "none",
        kind="more",
    )


def _proven(facts: Facts) -> bool:
    """Whether its log shows a host that was nearly full, and an optimizer that goes there."""
    offloaded = facts.said.get("offload") == "cpu" or "adam_offload" in facts.typed
    return offloaded and (facts.number("hostmemory") or 0) >= FULL


def _resumes(facts: Facts) -> bool:
    checkpoint = "checkpoint-" in facts.said.get("resume_from_checkpoint", "")
    return checkpoint and facts.steps is None and "return code" in facts.message


# All steps were taken: what is written at the end gathers the model in the host's memory.
_OVER = (
    Do(
        "ls -la --time-style=full-iso {output} {output}/checkpoint-*: all steps were taken: where "
        "the newest checkpoint is whole (weights and their index), nothing is to be trained again",
        "none",
        kind="over",
    ),
    Do(
        "ls -la --time-style=full-iso OUTPUT OUTPUT/checkpoint-*: all steps were taken: where the "
        "newest checkpoint is whole (weights, with their index), nothing is to be trained again",
        "none",
        kind="over",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """What was offloaded to the host, where the log says so, before the loader's workers; these
    are not there yet while the weights are loaded."""
    if _resumes(facts):
        return (_WITHOUT, *_STEPS)
    if facts.steps is not None and facts.steps[0] >= facts.steps[1] > 0:
        return (*_OVER, *_STEPS, _OFFLOAD)
    if "overmemory" in facts.said:  # Slurm says so: nobody need ask the kernel
        steps = tuple(do for do in _STEPS if do.kind != "who")
        return (*steps, _WORKERS, _LOAD)
    if _proven(facts):
        rest = tuple(do for do in _STEPS if do.kind != "who")
        who = tuple(do for do in _STEPS if do.kind == "who")
        return (_OFFLOAD, _more(facts), *rest, *who)
    if facts.said.get("offload") == "cpu" and facts.phase != "load":
        return (*_STEPS, _PRELOADED, _OFFLOAD, _WORKERS)
    if facts.phase == "load":
        sliced = (Do("zero3", _SLICED),) if facts.zero != 3 else ()
        return (*_STEPS, *sliced, _LOAD)
    began = facts.steps or not (facts.world or 0) > 1 or "return code" not in facts.message
    last = (_WORKERS, _LOAD) if began else (_LOAD, _WORKERS)  # no step yet: each rank reads weights
    return (*_STEPS, _PRELOADED, *last)


FAILURE = Known(
    code="VG532",
    name="explain-host-memory",
    title="Killed for the host's memory (not the GPU's), or by hand",
    zh="主机内存不足，进程被内核杀死（SIGKILL / exit −9）",
    why=_why,
    do=_do,
    wrong="kill -9 by a person or a watchdog script looks the same; dmesg tells.",
    signs=(
        Sign(" OUT_OF_ME+ ", where="line", releases="sacct"),
        Sign("TERM_SWAP", where="line", releases="LSF"),
        Sign("oom-kill event", where="line"),
        Sign("oom_kill event", where="line"),
        Sign("Detected 1 oom_kill", where="line"),
        Sign("OOMKilled", where="line"),
        Sign("low on resource: memory", where="line", releases="Kubernetes"),
        Sign("The node had condition: [MemoryPressure", where="line", releases="Kubernetes"),
        Sign("TERM_MEMLIMIT", where="line", releases="LSF"),
        Sign("PBS: job killed: mem", where="line"),
        Sign("PBS: job killed: vmem", where="line"),
        Sign("Out of memory: Killed process", where="line"),
        Sign("Memory cgroup out of memory", where="line"),
        Sign("Out Of Memory", where="line"),
        Sign("oom-killer", where="line"),
        Sign("oom-kill:constraint=", where="line"),
        Sign("killed by the cgroup out-of-memory handler", where="line"),
        Sign("Ran out of memory. Job killed", where="line"),
        Sign("exceeded memory limit", where="line"),
        Sign("DefaultCPUAllocator: can't allocate memory"),
        Sign("DefaultCPUAllocator: not enough memory"),
        Sign("Cannot allocate memory"),
        Sign("MemoryError", no=("CUDA", "OutOfMemoryError")),
        Sign("was killed by the Linux OOM", where="line"),
        Sign("workers killed due to memory pressure", where="line"),
        Sign("killed due to the node running low on memory"),
        Sign("node running low on memory", where="line"),
        Sign("bad_alloc"),
        Sign("std::bad_alloc", where="line"),
        Sign("not enough memory: you tried to allocate"),
        Sign("out of host memory"),
        Sign("Exceeded job memory limit", where="line"),
        Sign("Cannot allocate memory (12)"),
        Sign("Unable to allocate", also=("for an array with shape",)),
        Sign("NCCL WARN Failed to malloc", where="line"),
        Sign("detected: malloc(size=", where="line", also=("NCCL WARN",), releases="NCCL"),
        Sign(
            "killed due to memory pressure (OOM)",
            where="line",
            no=(" 0 Workers (tasks",),
            releases="Ray",
        ),
        Sign("Ray killed this worker", where="line", also=("memory usage threshold",)),
        Sign("Ray killed this worker"),
        Sign("exceeded virtual memory limit", where="line", releases="Slurm"),
        Sign("Cgroup mem limit exceeded", where="line", releases="PBS"),
        Sign("Cgroup memory limit exceeded", where="line", releases="PBS"),
        Sign("tried to allocate more memory than is available", where="line", releases="Kaggle"),
        Sign("after using all available RAM", where="line", releases="Colab"),
        Sign("exceeded its memory usage limit", where="line", releases="PBS, Torque"),
        Sign("used more memory than it was allocated", where="line", releases="Galaxy"),
        Sign("exceeds job hard limit", where="line", also=("vmem",), releases="SGE"),
        Sign("exceeds job hard limit", where="line", also=("_rss",), releases="SGE"),
        Sign("State: OUT_OF_MEMORY", where="line", releases="seff"),
        Sign("JobState=OUT_OF_MEMORY", where="line", releases="Slurm"),
        Sign("[Errno 12]"),
        Sign("WinError 1455", releases="Windows: its page file is too small"),
        Sign("WinError 8]", releases="Windows"),
    ),
    examples=(
        Example(
            "slurmstepd: error: Detected 1 oom_kill event in "
            "StepId=4242.0. Some of the step tasks have been OOM Killed.",
            "slurm/src/slurmd/slurmstepd, 23.11",
        ),
        Example(
            "traceback : Signal 9 (SIGKILL) received by PID 4242",
            "torch/distributed/elastic/multiprocessing/errors, 2.13.0",
        ),
    ),
    evidence="Slurm's, the kernel's and torchrun's own messages.",
    narrow=3,
)
