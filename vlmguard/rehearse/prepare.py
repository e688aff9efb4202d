"""A met command → what is to be rehearsed, or why it cannot be. Nothing is run here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlmguard.check import framework as frameworks
from vlmguard.check import hf, judge, redact
from vlmguard.check.judge import Verdict
from vlmguard.check.launcher import Job
from vlmguard.check.reading import model_config
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import Trace, known
from vlmguard.rehearse import framework
from vlmguard.rehearse.framework import Described
from vlmguard.rehearse.own_script import command as own_script
from vlmguard.rehearse.request import Request

STRATEGIES = ("single", "ddp", "zero1", "zero2", "zero3", "fsdp2")
_KEPT_BACK = re.compile(
    r"HOME|PATH|PWD|OLDPWD|SHLVL|_|TMPDIR|USER|LOGNAME|SHELL|VLMGUARD|MASTER_(ADDR|PORT)|"
    r"(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|NPROC_PER_NODE|NNODES|NODE_RANK|CUDA_\w+|NCCL_\w+|"
    r"ASCEND\w*|HIP_\w+|PYTORCH_CUDA_ALLOC_CONF|HF_HOME|HF_HUB_\w+|HF_DATASETS_\w+|XDG_\w+|"
    r"MODELSCOPE_CACHE|OMP_NUM_THREADS|DS_ACCELERATOR|WANDB_\w+|SWANLAB_\w+"
)
_ROWS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


class Refused(Exception):
    """Why a command is not rehearsed. ``code``: the exit status, 0 for what does not train."""

    def __init__(self, why: str, code: int = 2) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True)
class Prepared:
    """Attributes:
    code: the user's own code that would run.
    """

    request: Request
    verdict: Verdict
    code: tuple[str, ...] = ()


def prepare(
    job: Job, files: Files, trace: Trace, scratch: Path, world: int | None, thorough: bool
) -> Prepared:
    """Raises `Refused` with a reason in one line."""
    if world is not None:
        job = sized(job, world)
    files = replace(files, folder=job.call.folder)
    checked = judge.job(job, files, trace, {})
    if checked.state == judge.NOTHING:
        raise Refused(checked.reason, 0)
    if own_script.is_own(job, files):
        return _own(checked, job, files, trace, scratch, thorough)
    if checked.state == judge.WRONG:
        raise Refused(f"the framework refuses this command: {checked.reason}", 1)
    if checked.state == judge.CANNOT:
        raise Refused(checked.reason)
    found = frameworks.of_job(job, files)
    assert found is not None
    assert checked.run is not None
    owner, entry = found
    adapter = type(owner).__module__.partition(".")[0]
    hooks = framework.of(adapter)
    if hooks is None or hasattr(hooks, "OWN_SCRIPT"):
        what = os.path.basename(job.target) or owner.name
        raise Refused(f"{what}: no script of your own, and no command that is rehearsed")
    parsed = owner.values(job, files, entry)
    described = hooks.describe(parsed.values, entry, files)
    if described.obstacle:
        raise Refused(described.obstacle)
    strategy = checked.run.strategy
    if strategy not in STRATEGIES:
        raise Refused(f"{strategy} is not rehearsed yet; `vlmguard check` judges it")
    if strategy != "single" and checked.run.world < 2:
        raise Refused(f"{strategy} in one process: give the number of ranks, as in --world 8")
    if strategy == "fsdp2" and described.generates and parsed.values.true("use_vllm"):
        raise Refused("fsdp2 with --use_vllm: transformers, in its place, generates otherwise")
    unclear = [word for word in parsed.job.argv if not known(word)]
    if unclear:
        raise Refused(f"not known here: {redact.text(trace.shown(unclear[0]))}")
    argv, _ = owner.argv(job, files)
    return _prepared(checked, hooks, described, parsed.values, parsed.job, files, scratch,
                     thorough, (adapter, entry, argv))  # fmt: skip


def _own(
    checked: Verdict, job: Job, files: Files, trace: Trace, scratch: Path, thorough: bool
) -> Prepared:
    """A script of the user's own. Raises `Refused`."""
    if checked.state == judge.WRONG:
        raise Refused(f"it fails as its arguments are made: {checked.reason}", 1)
    try:
        found = own_script.request(job, files, trace, scratch, thorough, _variables(job.env))
    except Unreadable as error:
        raise Refused(str(error)) from None
    if isinstance(found, str):
        raise Refused(redact.text(found))
    own_script.hub({**os.environ, **job.env}, scratch.parent)
    return Prepared(found, own_script.checked(checked), (found.name,))


def sized(job: Job, world: int) -> Job:
    """In so many ranks, whatever its launcher was told: accelerate's flags and file say it, too."""
    told = {**job.options, "num_processes": str(world), "num_machines": "1"}
    return replace(job, nodes=1, per_node=world, launched=True, options=told)


def _prepared(
    checked: Verdict, hooks: object, described: Described, values: Values, job: Job, files: Files,
    scratch: Path, thorough: bool, whose: tuple[str, str, list[str]],
) -> Prepared:  # fmt: skip
    adapter, entry, argv = whose
    run = checked.run
    assert run is not None
    env = {**os.environ, **job.env}
    source = _model(described.model, files, env)
    media = _media(source)
    if described.packs and media:
        raise Refused("--packing: rows are joined, so that which rank gets media is not known")
    data, why = _data(described.data, files)
    evaluated, _ = _data(described.evaluated, files)
    remote = hooks.remote(Path(source))  # type: ignore[attr-defined]
    code = (*described.code, *([f"the model's own code ({', '.join(remote)})"] if remote else ()))
    request = Request(
        adapter, entry, tuple(_located(argv, files, scratch)), job.call.folder, run.strategy,
        run.world, source, os.path.basename(described.model.rstrip("/")), str(scratch),
        env=_variables(job.env), data=data, why_no_data=why, shuffled=described.shuffled,
        batch=described.batch, accumulation=described.accumulation or run.accumulation,
        own_accumulation=run.accumulation,
        evaluates=described.evaluates, evaluated=evaluated,
        generates_at_evaluation=described.generates_at_evaluation,
        towers=tuple(tower.kind for tower in run.towers if tower.trainable),
        media=media, media_root=described.media_root, accelerate=_accelerate(job, files),
        generates=described.generates, blocks=described.blocks, paired=described.paired,
        row=described.row, known=tuple(values.fields), thorough=thorough,
        local=job.per_node or 0, fewest=described.fewest,
    )  # fmt: skip
    return Prepared(request, checked, code)


def _accelerate(job: Job, files: Files) -> dict[str, Any]:
    """``accelerate launch``'s options, DeepSpeed's config file read."""
    if "accelerate" not in job.chain:
        return {}
    found = hf.accelerate_config(job, files)
    sizes = dict(found.get("parallelism_config") or {})
    for name, size in sizes.items():
        if name.endswith("_size") and str(size).isdigit() and int(size) > 1:
            raise Refused(f"{name} {size}: subgroups of ranks are not rehearsed")
    inner = dict(found.get("deepspeed_config") or {})
    if inner.get("deepspeed_config_file"):
        named = hf.table(inner["deepspeed_config_file"], files, "deepspeed_config_file")
        found["deepspeed_config"] = {**inner, "config": named}
    return found


def _model(name: str, files: Files, env: Mapping[str, str]) -> str:
    if not name:
        raise Refused("the command names no model")
    try:
        model_config.of(name, files, env)
    except Unreadable as error:
        raise Refused(str(error)) from None
    home = model_config.home(name, files, env)
    if not home:
        raise Refused(f"--model {name}: its config.json is not on this disk; download all but its "
                      "weights, or give such a folder")  # fmt: skip
    return home


def _media(source: str) -> tuple[str, ...]:
    found = model_config.of(source, Files(source), {})
    return tuple(word for word, there in (("image", found.sees), ("audio", found.hears)) if there)


def _data(names: tuple[str, ...], files: Files) -> tuple[tuple[str, ...], str]:
    """Local data files, and what is not among them."""
    found: list[str] = []
    absent: list[str] = []
    for name in names:
        bare = re.sub(r"^(hf|ms)::", "", re.sub(r"#\d+$", "", name)).partition(":")[0]
        path = files.path(bare)
        if os.path.isfile(path):
            found.append(path)
        elif os.path.isdir(path):
            inside = sorted(str(p) for p in Path(path).rglob("*") if p.suffix in _ROWS)
            found += inside
            absent += [] if inside else [bare]
        elif bare.endswith(_ROWS) or bare.startswith((".", "/", "~")):
            if path not in files.made:
                raise Refused(f"{bare}: there is no such data file")
            absent.append(bare)
        else:
            absent.append(bare)
    why = f"{', '.join(absent) or 'no data set'} is not on this disk"
    return tuple(found), why if absent or not found else ""


def _located(argv: list[str], files: Files, scratch: Path) -> list[str]:
    """Words with ``~`` spelt out, and files that the script would have written put in scratch."""
    located = []
    for word in argv:
        if word.startswith("~/"):
            word = os.path.expanduser(word)
        path = files.path(word) if word and not word.startswith("-") else ""
        if path in files.made and not os.path.exists(path):
            kept = scratch / "made" / os.path.basename(path)
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(files.made[path], "utf-8")
            word = str(kept)
        located.append(word)
    return located


def _variables(env: Mapping[str, str]) -> dict[str, str]:
    """What the script sets, but for what a rehearsal decides itself."""
    return {
        name: value
        for name, value in env.items()
        if os.environ.get(name) != value and not _KEPT_BACK.fullmatch(name) and known(value)
    } | ({"MAX_PIXELS": env["MAX_PIXELS"]} if env.get("MAX_PIXELS", "").isdigit() else {})
