"""Ray could not place its workers, was not reachable, or lost them."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_FEWER = re.compile(r"available GPUs (\d{1,6}) is less than total desired GPUs (\d{1,6})")


_NONE = Do(
    "ray status: cards under Usage are held by another job (ray stop --force on every node ends "
    "all of them, then start anew); none at all: Ray was started where nvidia-smi -L lists none",
    "none",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    if (match := _FEWER.search(facts.message)) is None:
        return _STEPS
    if match[1] == "0":
        return (_NONE, *_STEPS)
    here = (
        f"trainer.n_gpus_per_node={match[1]} trainer.nnodes=1 behind the command: {match[2]} are "
        f"asked for, and the cluster has {match[1]}; if there should be more: ray status shows "
        "which node is missing"
    )
    return (Do(here, "fewer ranks"), *_STEPS)


_STEPS = (
    Do(
        "ray status: no GPU in it: nvidia-smi -L on that node, then ray stop --force; ray "
        "start --head --num-gpus N (or ray.init(num_gpus=N)), with the N that it lists",
        "none",
        when=("No available node types",),
        kind="status",
    ),
    Do(
        "less for each worker, behind the command: what is Required in the line must fit into what "
        "is Available (AReaL: mem_per_model_worker, cpu_per_model_worker)",
        "none",
        when=("enough resources to launch",),
        kind="status",
    ),
    Do(
        "ray status before the start: nodes, free GPUs and CPUs; trainer.nnodes × "
        "n_gpus_per_node (or the sum of all --*_num_gpus_per_node) must not be more",
        "none",
        kind="status",
    ),
    Do(
        "ray stop --force on every node, then ray start anew: what an ended job left "
        "behind holds cards and ports",
        "ends whatever else runs in this cluster",
    ),
    Do(
        "under Slurm and in containers: num_cpus in ray.init (verl: "
        "ray_kwargs.ray_init.num_cpus) as the job has them; a short folder as "
        "--temp-dir or RAY_TMPDIR; ulimit -u and -n",
        "none",
    ),
    Do(
        "the last lines of /tmp/ray/session_latest/logs: raylet.err, gcs_server.err, "
        "worker-*.err of the node that is named",
        "none",
    ),
)

FAILURE = Known(
    code="VG591",
    name="explain-ray",
    title="Ray could not start or place its workers, or its own processes failed",
    zh="Ray 无法启动或调度 worker，或 Ray 自身进程出错",
    why=(
        "the run is a Ray job, and what failed is Ray, not the training: the cluster has "
        "fewer free GPUs or CPUs than the worker groups ask for (or an earlier job still holds "
        "them), it could not be reached, or its own process on a node could not start or ended"
    ),
    do=_do,
    wrong="If a worker raised an exception of its own before, that one is the cause.",
    signs=(
        Sign("does not have enough resources to launch workers", where="line", releases="AReaL"),
        Sign("Total available GPUs", also=("total desired GPUs",), releases="verl"),
        Sign("failed to get register_center_actor", releases="verl ≤ 0.5"),
        Sign("Cannot provide a placement group", releases="vLLM"),
        Sign("placement group", also=("cannot be",)),
        Sign("placement group", also=("Failed to",)),
        Sign("placement group has been removed"),
        Sign("No available node types can fulfill resource request", where="line"),
        Sign("TaskUnschedulableError"),
        Sign("ActorUnschedulableError"),
        Sign("TaskPlacementGroupRemoved"),
        Sign("ActorPlacementGroupRemoved"),
        Sign("The number of required", also=("exceeds the total number of available",)),
        Sign("Could not find any running Ray instance"),
        Sign("Failed to connect to Ray cluster"),
        Sign("Failed to connect to GCS"),
        Sign("ray client connection timeout"),
        Sign("Ray runtime not started"),
        Sign("Ray has not been started yet"),
        Sign("Version mismatch: The cluster was started with"),
        Sign("The current node timed out during startup"),
        Sign("The current node has not been updated within"),
        Sign("Failed to register worker to Raylet"),
        Sign("Failed to register worker", where="line", also=("aylet",)),
        Sign("Unable to register worker with raylet", where="line"),
        Sign("Failed to connect to GCS within", where="line"),
        Sign("This node has an IP address of", also=("but we cannot find",)),
        Sign("LocalRayletDiedError"),
        Sign("The task's local raylet died"),
        Sign("NodeDiedError"),
        Sign("ReferenceCountingAssertionError"),
        Sign("ObjectStoreFullError"),
        Sign("ObjectLostError"),
        Sign("ObjectFetchTimedOutError"),
        Sign("ObjectReconstructionFailed"),
        Sign("RuntimeEnvSetupError"),
        Sign("Failed to set up runtime environment"),
        Sign("PendingCallsLimitExceeded"),
        Sign("The GCS has died"),
        Sign("raylet exited immediately"),
        Sign("raylet exited immediately because", where="line"),
        Sign("AF_UNIX path length cannot exceed"),
        Sign("System error: AF_UNIX path"),
        Sign("-packages/ray/_private/services.py", where="raised"),
        Sign("-packages/ray/_private/node.py", where="raised"),
        Sign("-packages/ray/util/placement_group.py", where="raised"),
        Sign("-packages/ray/util/client/", where="raised"),
        Sign("-packages/ray/_private/runtime_env/", where="raised"),
        Sign("in _init_with_resource_pool", where="raised"),
        Sign("in _check_resource_available", where="raised"),
    ),
    examples=(
        Example(
            "ValueError: Total available GPUs 4 is less than total desired GPUs 8",
            "verl/single_controller/ray/base.py, 0.7",
        ),
        Example(
            "[2026-01-12 11:59:10,379 E 821 821] core_worker.cc:513: Failed to register worker to "
            "Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to "
            "read data from the socket: End of file",
            "ray/src/ray/core_worker/core_worker.cc, 2.47",
        ),
    ),
    evidence="Ray's and verl's own messages; verl-project/verl#523, #595.",
    narrow=1,
)
