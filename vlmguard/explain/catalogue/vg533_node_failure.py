"""A machine went away."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG533",
    name="explain-node-failure",
    title="A node failed or left the job",
    zh="计算节点故障或离线",
    why="a machine of the job stopped answering; the other ranks could only wait or be ended",
    do=(
        Do(
            "one machine: deepspeed --num_gpus N SCRIPT.py without --hostfile needs no ssh; "
            "several: "
            "ssh NODE hostname must answer without asking for a password",
            "none",
            when=("ssh:",),
        ),
        Do(
            "tail -n 40 /tmp/ray/session_latest/logs/raylet.err and worker-*.err on the "
            "actor's node; "
            "dmesg -T | grep -i -E 'killed process|oom'",
            "none",
            when=("RayActorError", "ActorDied", "ray."),
        ),
        Do(
            "sbatch --exclude={host} with the same script, resumed from its newest checkpoint "
            "(next step), and tell the administrators",
            "none",
            unless=("ssh:", "ray", "Ray", "kube", "Kube", "pod"),
            kind="node",
        ),
        Do(
            "sacct -j {job} --format=JobID,State%30,NodeList,ExitCode: which node? Then sbatch "
            "--exclude=NODE with the same script",
            "none",
            kind="node",
        ),
        Do(
            "sinfo -R: which node is down? Then sbatch --exclude=NODE with the same script",
            "none",
            unless=("ssh:", "ray", "Ray", "kube", "Kube", "pod"),
            kind="node",
        ),
        Do(
            "kubectl get nodes; kubectl describe pod NAME: which node is not ready? kubectl cordon "
            "NODE, then create the job again",
            "none",
            when=("kube", "Kube", "pod", "NodeNotReady"),
        ),
        Do("resume", "the steps since it was written"),
        Do("torchrun --max-restarts 3 with checkpoints, where nodes fail often", "none"),
    ),
    wrong="A node that an out-of-memory kill made unresponsive looks the same: see its kernel log.",
    signs=(
        Sign("Machine Check Exception", where="line", releases="the kernel's"),
        Sign("Fatal machine check", where="line", releases="the kernel's"),
        Sign("DUE TO NODE FAILURE", where="line"),
        Sign("Node failure on", where="line"),
        Sign("NODE_FAIL", where="line"),
        Sign("node is not responding", where="line"),
        Sign("NodeNotReady", where="line"),
        Sign("Node is not ready", where="line"),
        Sign("error: Nodes", where="line"),
        Sign("lost contact with node", where="line"),
        Sign("Node is lost", where="line"),
        Sign("The node it was running on failed", where="line"),
        Sign("nodeLost", where="line"),
        Sign("is DOWN", where="line"),
        Sign("ssh: connect to host", where="line", no=("Connection refused",)),
        Sign("RPC failed: node", where="line"),
        Sign("its node has died"),
        Sign("its node has died", where="line"),
        Sign("node has been marked dead", where="line"),
        Sign("Worker node is lost", where="line"),
        Sign("node has crashed"),
        Sign("has been marked dead because the detector", where="line", releases="Ray"),
        Sign("State: NODE_FAIL", where="line", releases="seff"),
        Sign("JobState=NODE_FAIL", where="line", releases="Slurm"),
    ),
    examples=(
        Example("srun: error: Node failure on gpu-node-17", "slurm/src/api/step_launch.c, 23.11"),
        Example(
            "slurmstepd: error: *** STEP 4242.0 ON gpu-node-17 CANCELLED "
            "AT 2026-01-12T08:00:21 DUE TO NODE FAILURE, SEE SLURMCTLD LOG "
            "FOR DETAILS ***",
            "slurm/src/slurmd/slurmstepd/req.c, 23.11",
        ),
    ),
    evidence="Slurm's and Kubernetes' own messages.",
    narrow=5,
)
