"""One command of ms-swift as users write it: a line, a script with variables, a config, or under
another launcher."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from vlmguard.rehearse.argv import flags

Line = tuple[str, Mapping[str, str]]
ACCELERATE = {
    "compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "machine_rank": 0,
    "mixed_precision": "no", "num_machines": 1, "num_processes": 2, "rdzv_backend": "static",
    "same_network": True, "use_cpu": False,
}  # fmt: skip


def line(name: str, words: Sequence[str], env: Mapping[str, str]) -> Line:
    """As it is typed."""
    before = " ".join(f"{key}={value}" for key, value in env.items())
    return f"{before} swift {shlex.join(words)}", {}


def script(name: str, words: Sequence[str], env: Mapping[str, str]) -> Line:
    """With variables, an array, a test and what comes before the training."""
    given = dict(flags(words[1:]))
    model, data = given.pop("model")[0], given.pop("dataset")[0]
    verb, rest = words[0], [(key, values) for key, values in given.items() if key]
    text = [
        "#!/usr/bin/env bash", "set -euo pipefail", "pip install -U ms-swift 2>&1 | tail -1",
        f"ROOT={shlex.quote(os.path.dirname(model))}",
        f'MODEL="${{ROOT}}/{os.path.basename(model)}"',
        f"DATA=${{DATA:-{shlex.quote(data)}}}",
        *(f"export {key}={value}" for key, value in env.items() if key != "NPROC_PER_NODE"),
        f"GPUS=$(seq -s, 0 1); N=${{N:-{env['NPROC_PER_NODE']}}}",
        'if [[ ! -d "$MODEL" ]]; then echo "no model" >&2; exit 3; fi',
        "ARGS=(", *(f"  --{key} {shlex.join(values)}" for key, values in rest), ")",
        'for part in train; do echo "$part on $GPUS"; done',
        f'NPROC_PER_NODE=$N swift {verb} --model "$MODEL" --dataset "${{DATA}}" "${{ARGS[@]}}"',
        "echo done",
    ]  # fmt: skip
    return f"bash {name}.sh", {f"{name}.sh": "\n".join(text) + "\n"}


def yaml(name: str, words: Sequence[str], env: Mapping[str, str]) -> Line:
    """`swift sft NAME.yaml`; JSON is YAML."""
    told = {key: _value(values) for key, values in flags(words[1:]) if key}
    ranks = f"NPROC_PER_NODE={env['NPROC_PER_NODE']}"
    told["ENV"] = {key: value for key, value in env.items() if key != "NPROC_PER_NODE"}
    return f"{ranks} swift {words[0]} {name}.yaml", {f"{name}.yaml": json.dumps(told, indent=1)}


def _value(values: Sequence[str]) -> object:
    return list(values) if len(values) > 1 else values[0] if values else "true"


def accelerate(name: str, words: Sequence[str], env: Mapping[str, str]) -> Line:
    """`accelerate launch --config_file …`."""
    before = " ".join(f"{key}={value}" for key, value in env.items() if key != "NPROC_PER_NODE")
    config = {**ACCELERATE, "num_processes": int(env["NPROC_PER_NODE"])}
    typed = f"{before} accelerate launch --config_file {name}.yaml -m swift.cli.{words[0]}"
    return f"{typed} {shlex.join(words[1:])}", {f"{name}.yaml": json.dumps(config)}


def deepspeed(name: str, words: Sequence[str], env: Mapping[str, str]) -> Line:
    """DeepSpeed's launcher."""
    before = " ".join(f"{key}={value}" for key, value in env.items() if key != "NPROC_PER_NODE")
    typed = f"{before} deepspeed --num_gpus={env['NPROC_PER_NODE']} --module swift.cli.{words[0]}"
    return f"{typed} {shlex.join(words[1:])}", {}


STYLES: Mapping[str, Callable[[str, Sequence[str], Mapping[str, str]], Line]] = {
    "line": line, "script": script, "yaml": yaml, "accelerate": accelerate, "deepspeed": deepspeed,
}  # fmt: skip
