"""Where a run stands, as its log says in passing: Slurm or a pod, a port that was taken, a card."""

from __future__ import annotations

import re

_SLURM = re.compile(
    r"slurmstepd: |srun: |\bSLURM_\w{2,30}=|\bsbatch |\bslurm job\b"
    r"|(?m:^(?:#SBATCH |(?:[+$] )?srun -))"
)
_POD = re.compile(
    r"Defaulted container \"|\bkubectl |\bKUBERNETES_|\bkubelet\b"
    r"|(?m:^ {2}host {6}: [\w.-]{1,60}-(?:worker|master|launcher)-\d{1,4}$)"
)
# A proxy beside the training's container: it takes the ranks' connections (READY counts it).
_SIDECAR = re.compile(
    r"istio|\benvoy\b|(?m:^\S{1,80}-(?:worker|master|launcher)-\d{1,4}\s{1,40}[0-2]/2\s)"
)
_POD_NAME = re.compile(r"\bkubectl logs (?:-f )?(?:pod/)?([a-z0-9][a-z0-9.-]{2,80})(?=\s|$)")
# The prompt of a shell in one of Docker's containers.
_CONTAINER = re.compile(r"(?m)^(?:\(\S{1,40}\) )?root@([0-9a-f]{12}):")
# A socket that could not be had, where the exception's own line does not name it.
_BUSY = re.compile(r"failed to (?:bind|listen)[^\n]{0,60}:(\d{2,5}) \(errno: (?:98|48)\b")
# The driver's line in a journal of several machines: host, card.
_XID = re.compile(
    r"([A-Za-z][\w.-]{1,60}) kernel: [^\n]{0,40}NVRM: Xid \(PCI:([\da-fA-F:.]{4,16})\)"
)
# nvidia-smi, of a card that no longer answers.
_HANDLE = re.compile(
    r"device handle for GPU ?(?:\d{1,2}: )?((?:[\dA-Fa-f]{4,8}:)?[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.0)"
)
# The driver's numbers for memory of a card that counts no more: ECC, contained, rows to remap.
_WORN = re.compile(
    r"Xid \(PCI:([\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2})\): (?:48|63|64|94|95),"
)
# What the command of a step, in the log, asks Slurm for: a script's own lines do not bind it.
_STEP_MEMORY = re.compile(r"(?m)^(?:[+$] )?srun [^\n]{0,400}?--mem[= ](\d{1,6}[KMGT]?)\b")
_STEP_EXPORT = re.compile(r"(?m)^(?:[+$] )?srun [^\n]{0,400}?--export[= ]([\w=,/.:-]{1,200})")
# How many machines a step or a job has.
_NODES = re.compile(r"(?m)^(?:[+$] )?(?:srun|#SBATCH) [^\n]{0,400}?(?:--nodes[= ]|-N ?)(\d{1,5})\b")
# What a job's script asks for, of the host's memory: in all, or for each of its processors.
_ASKED = re.compile(r"(?m)^#SBATCH (--mem(?:-per-cpu)?)[= ](\d{1,4})(G)(?:B)?\b")
_CPUS = re.compile(r"(?m)^#SBATCH (?:--cpus-per-task[= ]|-c ?)(\d{1,4})\b")
# Data that each rank of its own holds in the host's memory.
_PRELOADED = re.compile(r"(?<!\S)(--(?:preload|cache)_\w{1,30})[= ][Tt]rue\b")
# Columns of rows that were made ready, as datasets prints them.
_COLUMNS = re.compile(r"Dataset\(\{\s{0,8}features: \[([\w', ]{1,400})\]")
# NCCL's list of interfaces: containers' own among them, which no other machine reaches.
_INTERFACES = re.compile(r"NET/Socket : Using (\[0\][^\n]{5,600})")
_ADAPTERS = re.compile(r"NET/IB : Using \[0\][^\n\[]{3,40}\[1\]")
_NAMES = re.compile(r"\[\d{1,2}\]([\w.-]{1,20}):")
# A machine's own interfaces: no other machine reaches them.
VIRTUAL = ("br-", "veth", "docker", "virbr", "cni", "flannel", "cali", "lo")
_BRIDGE = re.compile(r"Bootstrap : Using (\w{2,15}:172\.17\.\d{1,3}\.\d{1,3})<")
# The hub's name or address is not to be reached from where the log was written.
_NO_NAME = re.compile(r"Failed to resolve '(?:[\w-]{1,20}\.)?huggingface\.co'")
_NO_WAY = re.compile(r"Connection to (?:[\w-]{1,20}\.)?huggingface\.co timed out")
# Where the ranks of one machine meet.
_LOOPBACK = re.compile(r"tcp://(?:127\.0\.0\.1|localhost):|master_addr[= ]+(?:127\.|localhost)")
# wandb's own words: whose key it has, whose project the run asked for.
_ACCOUNT = re.compile(r"wandb: Currently logged in as: ([\w.-]{1,60})")
_PROJECT = re.compile(r"wandb\.ai/[\w.-]{1,60}/([\w.-]{1,60})")
# DeepSpeed's account of the host's memory, in percent of all.
_HOST = re.compile(r"CPU Virtual Memory: {1,3}used = [\d.]{1,9} GB, percent = (\d{1,3})")
# From DeepSpeed 0.14 on this says that torch sees a card.
_CUDA = re.compile(
    r"real_accelerator\.py:(?:19[1-9]|2\d\d):\w{1,40}\] Setting ds_accelerator to cuda"
)


# What is there where its pattern is; what one pattern tells.
_THERE = {
    "slurm": _SLURM,
    "pod": _POD,
    "sidecar": _SIDECAR,
    "noname": _NO_NAME,
    "noway": _NO_WAY,
    "loopback": _LOOPBACK,
    "cudaseen": _CUDA,
}
_FIRST = {
    "podname": _POD_NAME,
    "bridge": _BRIDGE,
    "wandb_account": _ACCOUNT,
    "wandb_project": _PROJECT,
    "busyport": _BUSY,
    "stepmemory": _STEP_MEMORY,
    "nodes": _NODES,
    "preloaded": _PRELOADED,
    "container": _CONTAINER,
}


def passing(text: str, said: dict[str, str]) -> None:
    """Adds what this part of a log says of the place to the arguments that it printed."""
    for name, pattern in _THERE.items():
        if pattern.search(text):
            said.setdefault(name, "true")
    for name, pattern in _FIRST.items():
        if found := pattern.search(text):
            said.setdefault(name, found[1])
    if found := _INTERFACES.search(text):
        names = _NAMES.findall(found[1])
        real = [name for name in names if not name.startswith(VIRTUAL)]
        if len(real) == 1 < len(names):
            said.setdefault("realif", real[0])
    if _ADAPTERS.search(text):
        said.setdefault("adapters", "several")
    if "pytorch_lightning/" in text or "/lightning/pytorch/" in text or "GLOBAL_RANK: 0, M" in text:
        said.setdefault("lightning", "true")
    if "exceeded memory limit (" in text or "xceeded job memory limit" in text:
        said.setdefault("overmemory", "true")
    if "river/library version mismatch" in text:  # NVML's, and the container toolkit's
        said.setdefault("mismatched", "true")
    for full in _HOST.findall(text):
        said["hostmemory"] = full  # the last of them
    if len(worn := set(_WORN.findall(text))) == 1:
        said.setdefault("worncard", f"{worn.pop()}.0")
    if (found := _STEP_EXPORT.search(text)) and "ALL" not in found[1].split(","):
        said.setdefault("stepexport", found[1])
    if found := _ASKED.search(text):
        each = found[1] == "--mem-per-cpu"
        cpus = _CPUS.search(text) if each else None
        now = int(found[2]) * (int(cpus[1]) if cpus else 1)
        said.setdefault("memoryline", f"{found[1][2:]}={found[2]}G")
        said.setdefault("memorynow", f"{now}G")
        said.setdefault("memorymore", f"{now * 4}G")
    if found := _COLUMNS.search(text):
        said.setdefault("columns", found[1].replace("'", ""))
    if found := _HANDLE.search(text):
        said.setdefault("bus", found[1])
    if found := _XID.search(text):
        said.setdefault("xidnode", found[1])
        said["bus"] = found[2]
