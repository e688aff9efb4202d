"""The script was not started by a launcher, or its group was not made."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_TASKS = Do(
    "under srun: one torchrun for each node (--ntasks-per-node=1), or in each task "
    "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) "
    "MASTER_PORT=29500",
    "none",
)
_ONCE = Do(
    "grep -rn init_process_group . : one place only makes the group, before the first "
    "collective; not both the script and the framework",
    "none",
)
_STEPS = (Do("trainer_group", "none"), _TASKS, _ONCE)
# Lightning reads Slurm's own variables, of which each task has its own.
_LIGHTNING = Do(
    "srun python {main} … (the rest as it was) in the job's script, with #SBATCH "
    "--ntasks-per-node= as many as Trainer(devices=…): without srun one process a node is started, "
    "and each makes the same ranks",
    "none",
    kind="tasks",
)
_LIGHTNING_ANY = replace(_LIGHTNING, action=_LIGHTNING.action.replace("{main}", "SCRIPT.py"))
# Of these messages each has its own answer.
_OWN = (
    (
        ("has already checked in", "improper usage of ncclCommInitRank"),
        Do(
            "echo $(hostname) RANK=$RANK NODE_RANK=$NODE_RANK, in front of the start, on each "
            "node: two processes came with the same rank: --node_rank (--machine_rank) 0 on the "
            "first node, 1 on the second; under Slurm --node_rank $SLURM_NODEID, started by srun",
            "none",
        ),
    ),
    (
        ("default process group twice",),
        _ONCE,
    ),
    (
        ("process group has been destroyed",),
        Do(
            "grep -rn destroy_process_group --include='*.py' . : it comes once, behind the last "
            "save, evaluation and log",
            "none",
        ),
    ),
    (
        ("rendezvous endpoint",),
        Do(
            'echo "$MASTER_ADDR:$MASTER_PORT", in the job, in front of the start: a part of it is '
            "empty or no number: --rdzv_endpoint $(hostname):29500 on one machine (--standalone "
            "for torchrun)",
            "none",
        ),
    ),
    (
        ("KeyError: 'SLURM_",),
        Do(
            "srun --ntasks-per-node=$(nvidia-smi -L | wc -l) … (the rest as it was), in a job: the "
            "script reads its rank from Slurm's variables; without Slurm: torchrun, where the "
            "script has a flag for it (--launcher pytorch)",
            "none",
        ),
    ),
    (
        ("Distributed package doesn't have",),
        Do(
            '--ddp_backend gloo (in code init_process_group("gloo")): torch of Windows and macOS '
            "has no NCCL; on Linux this torch is +cpu: python -m pip install --force-reinstall "
            "torch --index-url https://download.pytorch.org/whl/cu126",
            "slower between cards",
        ),
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """What its own message asks for, before what starts ranks at all."""
    own = tuple(do for words, do in _OWN if any(said in facts.message for said in words))
    twice = "has already checked in" in facts.message or "KeyError: 'SLURM_" in facts.message
    if twice and "slurm" in facts.said and "lightning" in facts.said:
        return (_LIGHTNING, _LIGHTNING_ANY, *own, _TASKS)
    rest = (do for do in _STEPS if do not in own and not twice)
    return (*own, *rest)


FAILURE = Known(
    code="VG584",
    name="explain-launcher",
    title="The ranks' variables or the process group are missing",
    zh="缺少分布式环境变量或进程组未初始化",
    why=(
        "the script wants ranks, and no launcher said which one it is (RANK, "
        "WORLD_SIZE, MASTER_ADDR, LOCAL_RANK), or a collective came before "
        "init_process_group (or after its end, or it was made twice)"
    ),
    do=_do,
    wrong=(
        "Setting RANK=0 WORLD_SIZE=1 by hand trains on one card alone, and four "
        "such processes train four models."
    ),
    signs=(
        Sign("Default process group is not initialized", releases="torch 1.x"),
        Sign("improper usage of ncclCommInitRank", where="line", releases="NCCL ≥ 2.23"),
        Sign("EI0004: ", where="line", no=("arning",), releases="HCCL: the table of ranks"),
        Sign("environment variable", also=("expected, but not set",)),
        Sign("Default process group has not been initialized"),
        Sign("model parallel group is not initialized"),
        Sign("data parallel group is not initialized"),
        Sign("trying to initialize the default process group twice"),
        Sign("KeyError: 'LOCAL_RANK'"),
        Sign("KeyError: 'RANK'"),
        Sign("KeyError: 'WORLD_SIZE'"),
        Sign("KeyError: 'MASTER_ADDR'"),
        Sign("KeyError: 'MASTER_PORT'"),
        Sign("requires the LOCAL_RANK environment variable"),
        Sign("backend not set, please initialize it using init_process_group"),
        Sign("Distributed backend is not initialized"),
        Sign("Using DeepSpeed requires"),
        Sign("Invalid process group"),
        Sign("The specified group name"),
        Sign("is not initialized. Please call init"),
        Sign("Missing rank"),
        Sign("rank parameter missing"),
        Sign("LOCAL_RANK ("),
        Sign("The port number of the rendezvous endpoint", releases="torch ≥ 1.9"),
        Sign("The rendezvous endpoint must be", releases="torch ≥ 1.9"),
        Sign("The hostname of the rendezvous endpoint", releases="torch ≥ 1.9"),
        Sign("does not support `nn.DataParallel`"),
        Sign("process group has been destroyed"),
        Sign("is not part of the group"),
        Sign("backend is not available"),
        Sign("No rendezvous handler"),
        Sign("You need to use at least 2 processes to use `--multi_gpu`"),
        Sign("Please use `torchrun`"),
        Sign("Please launch with"),
        Sign("Please use FORCE_TORCHRUN=1"),
        Sign("only be used in distributed training"),
        Sign("only works in distributed"),
        Sign("Less than two GPU ids were configured"),
        Sign("need to manually pass in `--num_processes`"),
        Sign("Your training script should have a function named"),
        Sign("in _get_env_or_raise", where="raised"),
        Sign("torch/distributed/distributed_c10d.py in _get_default_group", where="raised"),
        Sign("in _check_valid_to_run", where="raised"),
        Sign("in mpi_discovery", where="raised"),
        Sign("in _env_rendezvous_handler", where="raised"),
        Sign("torch/distributed/distributed_c10d.py in init_process_group", where="raised"),
        Sign("in _new_process_group_helper", where="raised"),
        Sign("Distributed package doesn't have"),
        Sign("is not initialized in the world group map"),
        Sign("LOCAL_RANK is not in the environment"),
        Sign("distributed_c10d.py in get_backend", where="raised"),
        Sign("The `PartialState` or `Accelerator` must be initialized before"),
        Sign("but `MASTER_ADDR` env was not set"),
        Sign("Requires distributed package to be available"),
        Sign("Unknown c10d backend type"),
        Sign("is not part of group"),
        Sign("has already checked in", where="line", releases="NCCL: two processes of one rank"),
        Sign("You must initialize the accelerate state by calling"),
        Sign("mpirun or mpiexec were not found"),
        Sign("Not currently using distributed training"),
        Sign("The node_rank must be less than the number of nodes"),
        Sign("Distributed training has not been initialized", releases="FlagEmbedding"),
        Sign("only works in SLURM or via torchelastic", releases="Lightning ≤ 1.5"),
        Sign("plugins/environments/", where="raised", releases="Lightning"),
        Sign("INTERNAL ASSERT FAILED", also=("ProcessGroup",)),
        Sign("KeyError: 'CUDA_VISIBLE_DEVICES'"),
        Sign("KeyError: 'NODE_RANK'"),
        Sign("KeyError: 'LOCAL_WORLD_SIZE'"),
        Sign("KeyError: 'GROUP_RANK'"),
        Sign("KeyError: 'NNODES'"),
        Sign("KeyError: 'NPROC_PER_NODE'"),
        Sign("KeyError: 'SLURM_"),
        Sign("KeyError: 'OMPI_"),
        Sign("KeyError: 'PMI_"),
    ),
    examples=(
        Example(
            "ValueError: Error initializing torch.distributed using env:// "
            "rendezvous: environment variable RANK expected, but not set",
            "made by causing it, torch 2.13.0",
        ),
        Example(
            "ValueError: Default process group has not been initialized, please "
            "make sure to call init_process_group.",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="torch's, DeepSpeed's and accelerate's own checks.",
    narrow=1,
)
