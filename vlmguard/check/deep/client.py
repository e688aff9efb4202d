"""``--deep``: the framework's own argument classes, constructed in a process of their own.

Their ``__post_init__`` runs there as rank 0 of the real number of ranks: home and caches lie in a
folder that goes; Python connects to nothing there, starts no program, and writes nothing outside of
that folder. Native code is not held. The user's own code (plug-ins, a model's remote code) does not
run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlmguard.check.deep import sandbox
from vlmguard.check.framework import Framework, without
from vlmguard.check.launcher import Job
from vlmguard.check.reading import model_config
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import known

LIMIT = 180.0
"""Seconds; most of it are the framework's imports."""
DECIDES = ("gradient_checkpointing", "vit_gradient_checkpointing", "gradient_checkpointing_kwargs",
           "ddp_find_unused_parameters", "ddp_static_graph", "freeze_vit", "freeze_aligner",
           "freeze_llm", "tuner_type", "train_type", "finetuning_type",
           "freeze_vision_tower", "freeze_multi_modal_projector")  # fmt: skip
"""What rules rest on; the rest of what the framework settles is not taken over."""
CODE = ("external_plugins", "custom_register_path")
NODE = 8


@dataclass(frozen=True)
class Settled:
    """Attributes:
    refused: the framework's own words against the command; "" if it takes it.
    values: fields as it settles them.
    doubt: why it could not be asked; "" where it was.
    """

    refused: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    doubt: str = ""


def settle(
    owner: Framework, entry: str, argv: list[str], values: Values, job: Job, files: Files
) -> Settled:
    """Ask the framework. Takes its imports' time; never raises for what it says."""
    named = str(values.get("model") or values.get("model_name_or_path") or "")
    home = model_config.home(named, files, {**os.environ, **job.env})
    if not home:
        return Settled(doubt=f"--deep: {named or 'the model'} is not on this disk, and its "
                             "framework would look for it on the network")  # fmt: skip
    if "auto_map" in model_config.of(home, files, {}).config:
        return Settled(doubt="--deep: the model's own code would run")
    words = [word for word in argv if known(word)]
    if len(words) < len(argv):
        return Settled(doubt="--deep: not all words of the command are known here")
    asked = {
        "plugin": type(owner).__module__.partition(".")[0],
        "entry": entry,
        "argv": without(words, CODE),
        "local": min(job.per_node or NODE, job.world or 1),
        "world": job.world or 1,
    }
    with tempfile.TemporaryDirectory(prefix="vlmguard-deep-") as folder:
        told = _asked(asked, Path(folder), job)
    used = [f"--{name}" for name in CODE if values.given.get(name)]
    if used and not told.refused:
        return Settled(values=told.values, doubt=told.doubt or f"--deep: without {used[0]}")
    return told


def _asked(asked: Mapping[str, Any], folder: Path, job: Job) -> Settled:
    env = {**sandbox.environment(folder), **sandbox.CPU, "VLMGUARD": "off"}
    kept = {k: v for k, v in job.env.items() if k not in env and known(v)}
    given = json.dumps({**asked, "folder": str(folder)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "vlmguard.check.deep.worker"], input=given, text=True,
            env={**kept, **env}, cwd=job.call.folder, capture_output=True, timeout=LIMIT,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Settled(doubt=f"--deep: no answer in {LIMIT:.0f} s")
    answer = folder / "answer.json"
    if not answer.exists():
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Settled(doubt=f"--deep: its process ended ({done.returncode}): {last[:200]}")
    return Settled(**json.loads(answer.read_text("utf-8")))


def taken_over(values: Values, settled: Settled) -> list[str]:
    """Put what rules rest on in place, and say what differs from what the sources said."""
    found = []
    for name in DECIDES:
        if name not in settled.values or not values.has(name):
            continue
        before, now = values.get(name), settled.values[name]
        if isinstance(before, str) and isinstance(now, dict):
            before = json.loads(before) if before.lstrip().startswith("{") else before
        if now is not None and before != now:
            values.given[name] = now
            found.append(f"--{name} {json.dumps(now) if isinstance(now, dict) else now}")
    return found
