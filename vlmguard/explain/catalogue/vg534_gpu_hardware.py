"""A GPU failed."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# What no second look is needed for.
_BROKEN = ("ncorrectable", "fallen off the bus", "GPU is lost", "GpuIsLost", "requires reset")

_THEN = (
    ": the card that counts uncorrectable errors, or has a row or page pending, is out: another "
    "machine or card (next step), and tell the administrators; on a machine of your own sudo "
    "nvidia-smi -i ITS_NUMBER --gpu-reset with nothing running on it"
)

_LOST = ("fallen off the bus", "GPU is lost", "GpuIsLost", "Unable to determine the device handle")
_RESTART = (
    "a card that fell off its bus comes back by a restart alone; if it falls off again, power, "
    "heat or the card are at fault"
)
_OTHERWISE = (
    "; until then the run elsewhere (Slurm: sbatch --exclude={0}; Kubernetes: kubectl cordon {0})"
)
_WITHOUT = (
    Do(
        "CUDA_VISIBLE_DEVICES=$(nvidia-smi --query-gpu=index --format=csv,noheader | grep -vx "
        "{card} | paste -sd,) in front of the command: the run without GPU {card}, with one rank "
        "fewer (nproc_per_node, num_processes); and have the card replaced",
        "slower",
        kind="node",
    ),
    Do(
        "CUDA_VISIBLE_DEVICES=0,1,… in front of the command: without that card, with one rank "
        "fewer (nproc_per_node, num_processes; Slurm: sbatch --exclude=NODE), and have the card "
        "replaced",
        "slower",
        kind="node",
    ),
)


_TAKEN = (
    Do(
        "docker restart {container}, on the host, then resume: a systemctl daemon-reload there "
        "took the cards from the running container; no card is broken where nvidia-smi on the host "
        "has its table",
        "the steps since the newest checkpoint",
        kind="again",
    ),
    Do(
        "docker restart CONTAINER (a pod: kubectl delete pod NAME), on the host, then resume: a "
        "systemctl daemon-reload there took the cards from the running container; no card is "
        "broken where nvidia-smi on the host has its table",
        "the steps since the newest checkpoint",
        kind="again",
    ),
    Do(
        '"exec-opts": ["native.cgroupdriver=cgroupfs"] in /etc/docker/daemon.json of the host, '
        "then sudo systemctl restart docker: no later reload takes them",
        "ends all containers of that host once",
    ),
)


# In a pod: its card's number there is not the machine's, and the pod is gone with the run.
_POD = Do(
    "kubectl cordon $(kubectl get pod {node} -o jsonpath='{.spec.nodeName}'), then the same job, "
    "resumed (next step), which lands on another machine: the log proves the card's fault; a pod "
    "that is gone: kubectl get events -A | grep {node} names its node",
    "none",
    kind="pod",
)
_POD_ANY = Do(
    "kubectl cordon NODE, on which the failed rank's pod ran (kubectl get pods -o wide), then the "
    "same job, resumed (next step), which lands on another machine: the log proves the card's "
    "fault",
    "none",
    kind="pod",
)
_ON_NODE = Do(
    "nvidia-smi -q -d ECC,ROW_REMAPPER | grep -E '^GPU|Uncorrectable|Pending' ; dmesg -T | grep -i "
    "xid | tail, on that node itself, for its administrators: the card that counts errors is "
    "replaced or reset, then kubectl uncordon",
    "none",
    kind="look",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The machine's name where the log tells it; Slurm's words where it is Slurm's."""
    resume = Do("resume", "the steps since it was written")
    if "initialize NVML: Unknown Error" in facts.message:
        return (*_TAKEN, resume, *_LOOK)
    if "worncard" in facts.said and "slurm" not in facts.said:
        return (*_WORN, *_WITHOUT, resume)
    if "pod" in facts.said and any(said in facts.message for said in _BROKEN):
        return (_POD, _POD_ANY, resume, _ON_NODE)
    if "slurm" in facts.said:
        if "worncard" in facts.said:  # no message is needed where the kernel's lines are there
            sure = tuple(replace(do, when=()) for do in _SLURM[:2])
            return (*sure, *_SLURM[2:], *_REPLACED, resume)
        return (*_SLURM, *_LOOK, *_REPLACED, resume)
    return (*_ALONE, *_LOOK, *_WITHOUT, resume)


_SLURM = (
    Do(
        "sbatch --exclude={xidnode} with the same script: that machine's card is broken; tell the "
        "administrators",
        "none",
        when=_BROKEN,
        kind="node",
    ),
    Do(
        "sbatch --exclude={node} with the same script: that machine's card is broken; tell the "
        "administrators",
        "none",
        when=_BROKEN,
        kind="node",
    ),
    Do(
        "sudo reboot, or sbatch --exclude=NODE with the same script, and tell the "
        f"administrators: {_RESTART}",
        "none",
        when=_LOST,
        kind="node",
    ),
)
_ALONE = (
    Do(
        f"ssh {{xidnode}} sudo reboot: its card at PCI {{bus}}: {_RESTART}"
        + _OTHERWISE.format("{xidnode}"),
        "none",
        when=_LOST,
        kind="node",
    ),
    Do(
        f"ssh {{onenode}} sudo reboot: {_RESTART}" + _OTHERWISE.format("{onenode}"),
        "none",
        when=_LOST,
        kind="node",
    ),
    Do(
        f"sudo reboot: its card at PCI {{bus}} no longer answers: {_RESTART}; until then the run "
        "on another machine, or without that card",
        "none",
        when=_LOST,
        kind="node",
    ),
    Do(
        f"sudo reboot: {_RESTART}; until then the run on another machine",
        "none",
        when=_LOST,
        kind="node",
    ),
)
# The kernel's own lines have told which card it is, and that its memory is worn.
_RESET = (
    ", with nothing running on it (or sudo reboot): the log's Xid lines tell of this card's memory "
    "(ECC, rows to remap), and no further look is needed; until then, or where that is not yours "
    "to do: the run on another machine, from its newest checkpoint (last step)"
)
_WORN = (
    Do("sudo nvidia-smi --gpu-reset -i {worncard}, on {xidnode}" + _RESET, "none", kind="reset"),
    Do("sudo nvidia-smi --gpu-reset -i {worncard}, on {node}" + _RESET, "none", kind="reset"),
    Do("sudo nvidia-smi --gpu-reset -i {worncard}, on that machine" + _RESET, "none", kind="reset"),
)
_LOOK = (
    Do(
        "nvidia-smi -i {card} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT, on that machine (rank "
        "{failed} is GPU {card} of its machine, where each of its cards has one)" + _THEN,
        "none",
        when=("ncorrectable",),
        kind="look",
    ),
    Do(
        "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT | grep -E "
        "'^GPU|Uncorrectable|Pending', on that machine" + _THEN,
        "none",
        when=("ncorrectable",),
        kind="look",
    ),
    Do(
        "nvidia-smi -q -d ECC,ROW_REMAPPER | grep -E '^GPU|Uncorrectable|Pending' ; dmesg -T | "
        "grep -i xid | tail, on that machine: a card that counts errors, is pending or is not "
        "listed is the one; none does: start again, and suspect the program",
        "none",
        kind="look",
    ),
)
_REPLACED = (
    Do(
        "sbatch --exclude={node} with the same script, and have the card replaced",
        "none",
        kind="node",
    ),
    Do(
        "sbatch --exclude=NODE with the same script, and have the card replaced",
        "none",
        kind="node",
    ),
)


FAILURE = Known(
    code="VG534",
    name="explain-gpu-hardware",
    title="A GPU failed: the driver or the card reports a fault",
    zh="GPU 硬件故障（Xid / ECC / 掉卡）",
    why="the driver reports a fault of the card, its memory or its "
    "link; no setting of the training mends it",
    do=_do,
    wrong="Xid 13, 31 and 43 come from a faulty kernel or an index out "
    "of range in the program more often than from the card.",
    signs=(
        Sign("over nvlink or a hardware error"),
        Sign("NVRM: Xid", where="line"),
        Sign("Xid (PCI", where="line"),
        Sign("GPU has fallen off the bus", where="line"),
        Sign("uncorrectable ECC error", where="line"),
        Sign("double bit ECC", where="line"),
        Sign("DBE error", where="line"),
        Sign("GPU is lost", where="line"),
        Sign("row remapping failure", where="line"),
        Sign("Failed to initialize NVML: Unknown Error", where="line"),
        Sign("fallen off the bus", where="line"),
        Sign("uncorrectable ECC error"),
        Sign("CUDA error: an illegal instruction"),
        Sign("GPU is lost"),
        Sign("CUDA error: hardware stack error"),
        Sign("cudaErrorECCUncorrectable"),
        Sign("NVLink error"),
        Sign("Unable to determine the device handle for GPU"),
        Sign("Unable to determine the device handle", where="line"),
        Sign("nvidia-smi has failed because", where="line"),
        Sign("SXid", where="line"),
        Sign("HW Exception by GPU", where="line", releases="ROCm's runtime"),
        Sign("reason :GPU Hang", where="line", releases="ROCm's runtime"),
        Sign("RmInitAdapter failed", where="line"),
        Sign("NVLink error was detected", where="line"),
        Sign("NVLink error was detected"),
        Sign("GPU requires reset", where="line"),
        Sign("GpuIsLost"),
        Sign("NVMLError_Unknown"),
        Sign("uncorrectable NVLink"),
        Sign("CTX SWITCH TIMEOUT", where="line"),
    ),
    examples=(
        Example(
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.",
            "the NVIDIA driver's kernel message, R535",
        ),
        Example(
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "CUDA runtime's own text, 12.4",
        ),
    ),
    evidence="NVIDIA's table of Xid errors.",
    narrow=4,
)
