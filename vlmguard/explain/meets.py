"""Several nodes that wait for each other where each is told that it is the first itself."""

from __future__ import annotations

from collections.abc import Iterator

from vlmguard.explain.logfacts import Facts

_OWN = ("localhost", "127.0.0.1")
_MASTER = (
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) '
    "MASTER_PORT=29500 in front of srun: {address} is each node's own, so that each of the {nodes} "
    "waits for ranks at itself; and the script must not choose another port on each"
)
_ENDPOINT = (
    '--rdzv_endpoint $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):29500 in the '
    "job's script (without Slurm the first node's name or address): {address} is each node's own, "
    "so that each of the {nodes} waits at itself"
)


def steps(facts: Facts) -> Iterator[str]:
    """An address for all of them, in place of each node's own."""
    said = facts.said
    address, nodes = said.get("master_addr", ""), said.get("nodes", "1")
    endpoint, several = said.get("rdzv_endpoint", "").partition(":")[0], said.get("nnodes", "1")
    if endpoint in _OWN and several not in ("0", "1"):
        yield _ENDPOINT.format(address=endpoint, nodes=several)
    elif address in _OWN and nodes not in ("0", "1"):
        yield _MASTER.format(address=address, nodes=nodes)
