"""``#SBATCH`` lines → the variables that Slurm sets for the script behind them."""

from __future__ import annotations

import re

# The options of #SBATCH lines, with the variables that Slurm sets for them.
_SBATCH = (
    (r"(?:--nodes|-N)[= ]*(\d+)", ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")),
    (r"--ntasks-per-node[= ](\d+)", ("SLURM_NTASKS_PER_NODE",)),
    (r"--gpus-per-node[= ](?:\w+:)?(\d+)", ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")),
    (r"--gres[= ]gpu:(?:\w+:)?(\d+)", ("SLURM_GPUS_ON_NODE",)),
    (r"(?:--ntasks|-n)[= ](\d+)", ("SLURM_NTASKS", "SLURM_NPROCS")),
    (r"(?:--cpus-per-task|-c)[= ](\d+)", ("SLURM_CPUS_PER_TASK",)),
    (r"(?:--job-name|-J)[= ](\S+)", ("SLURM_JOB_NAME",)),
)


def slurm_variables(source: str) -> dict[str, str]:
    """Slurm's variables, as the ``#SBATCH`` lines set them."""
    found: dict[str, str] = {}
    for line in source.splitlines():
        told = re.match(r"#SBATCH\s+(.*)", line)
        for pattern, names in _SBATCH if told else ():
            value = re.search(rf"(?:^|\s){pattern}", told[1] if told else "")
            if value:
                found.update(dict.fromkeys(names, value[1]))
    if "SLURM_GPUS_ON_NODE" not in found and "SLURM_NTASKS_PER_NODE" in found:
        found["SLURM_GPUS_ON_NODE"] = found["SLURM_NTASKS_PER_NODE"]
    return found
