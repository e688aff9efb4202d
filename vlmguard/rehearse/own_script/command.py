"""A command that runs a script of the user's own → what is to be rehearsed. Nothing is run here.

What the script makes of its model, its rows and its arguments is found out in the first pass
(`passes`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vlmguard.check import framework, hf, judge
from vlmguard.check.judge import Verdict
from vlmguard.check.launcher import Job
from vlmguard.check.reading import places, python_files, scripts
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import Trace, known
from vlmguard.rehearse.request import Request

ADAPTER = "vlmguard_transformers"
TRAINER, LOOP = "trainer", "loop"
_TRAINERS = {"transformers", "trl"}
_BUILT_ON = (ADAPTER, "vlmguard_trl")
"""Plug-ins for what a user's own script is built on; the others know scripts that are commands."""
_FRAMEWORKS = ("accelerate", "colossalai", "deepspeed", "FlagEmbedding", "llamafactory", "swift",
               "torch", "transformers", "trl")  # fmt: skip
_LOOPS = re.compile(r"\.backward\(|deepspeed\.initialize|Booster\(")
_TRAINS = re.compile(r"Trainer\b")


def module(job: Job, files: Files) -> str:
    """The script as a module for `python_files`; "" for what is no file of the user's own."""
    found = scripts.module(job.target, files)
    return "" if found.partition(".")[0] in _FRAMEWORKS else found


def is_own(job: Job, files: Files) -> bool:
    """Whether it runs a script of the user's own, and not a framework's command by its file."""
    if not module(job, files):
        return False
    found = framework.of_job(job, files)
    return found is None or type(found[0]).__module__.partition(".")[0] in _BUILT_ON


def obstacle(job: Job, files: Files) -> str:
    """Why it cannot be looked at without running it; "" where it can."""
    one = module(job, files)
    name = os.path.basename(job.target)
    if "colossalai run" in job.chain or "colossalai" in scripts.imports(one):
        return f"{name}: a ColossalAI script is not rehearsed; `vlmguard check` judges it"
    return "" if trains_by(one) else f"{name}: no Trainer and no loop is found in it"


def trains_by(module: str) -> str:
    """What the nearest of its modules that trains does it by: `TRAINER`, `LOOP`, or "" for none."""
    uses = _TRAINERS & scripts.imports(module)
    for each in scripts.followed(module):
        source = python_files.text(each)
        if uses and _TRAINS.search(source):
            return TRAINER
        if _LOOPS.search(source):
            return LOOP
    return ""


def request(
    job: Job, files: Files, trace: Trace, scratch: Path, thorough: bool, env: Mapping[str, str]
) -> Request | str:
    """What to rehearse; or why not."""
    one = module(job, files)
    if why := obstacle(job, files):
        return why
    unclear = [word for word in job.argv if not known(word)]
    if unclear:
        return f"not known here: {trace.shown(unclear[0])}"
    accelerate = hf.accelerate_config(job, files) if "accelerate" in job.chain else {}
    world = accelerate.get("num_processes") or job.world or (None if job.launched else 1)
    name = os.path.basename(job.target)
    if world is None:
        return f"{name}: the number of ranks is not known; give it, as in --world 8"
    paths = tuple(os.path.realpath(path) for path in places.of(job, files))
    target = job.target if job.target.startswith("-m ") else files.path(job.target)
    return Request(
        ADAPTER, target, tuple(job.argv), job.call.folder, "", int(world), "", name, str(scratch),
        env=env, accelerate=accelerate, thorough=thorough, local=job.per_node or 0,
        passes=("off", "on"), launched=job.launched, paths=paths,
        imports=tuple(sorted(scripts.imports(one))),
        loop=trains_by(one) == LOOP,
        local_rank="deepspeed" in job.chain and "--no_local_rank" not in job.prefix,
    )  # fmt: skip


def checked(found: Verdict) -> Verdict:
    """What `check` says, for the answer: what it could not tell stays open beside a rehearsal."""
    if found.state != judge.CANNOT:
        return found
    return replace(found, unread=(*found.unread, found.reason))


def hub(env: Mapping[str, str], folder: Path) -> None:
    """Let the rehearsal's own caches name the models that the hub's cache has: they are read."""
    home = env.get("HF_HOME") or os.path.join(env.get("HOME", "~"), ".cache", "huggingface")
    cache = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    cache = os.path.expanduser(cache)
    place = folder / "caches" / "hf_home"
    if known(cache) and os.path.isdir(cache) and not (place / "hub").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "hub").symlink_to(cache)
