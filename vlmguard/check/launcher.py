"""A met command → the training job behind its launchers, or why it is none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vlmguard.check.shell.state import Call, known

# Options that take no value; every other option of the launcher takes one.
_TORCHRUN = {"--standalone", "--no-python", "--no_python", "-m", "--module", "--run-path",
             "--run_path", "--use-agent-store", "--enable-cpu-affinity", "--virtual-local-rank",
             "--help", "-h", "--use_env", "--use-env"}  # fmt: skip
ACCELERATE = {"--multi_gpu", "--multi-gpu", "--cpu", "--tpu", "--use_deepspeed", "--use_fsdp", "-m",
              "--use-deepspeed", "--use-fsdp", "--use_parallelism_config", "--use_megatron_lm",
              "--ipex", "--use_xpu", "--quiet", "-q", "--module", "--no_python", "--debug",
              "--same_network", "--enable_cpu_affinity"}  # fmt: skip
_DEEPSPEED = {"--no_python", "--module", "-m", "--no_local_rank", "--force_multi", "--save_pid",
              "--no_ssh", "--elastic_training", "--bind_cores_to_rank",
              "--no_ssh_check"}  # fmt: skip
_PYTHON = {"-u", "-O", "-OO", "-s", "-S", "-E", "-I", "-B", "-b", "-v", "-q", "-P", "-i"}
_UNSEEN = {"sbatch", "srun", "salloc", "ssh", "docker", "podman", "nerdctl", "kubectl", "mpirun",
           "mpiexec", "pdsh", "qsub", "bsub", "apptainer", "singularity", "helm", "dlc", "parallel",
           "xargs", "ray", "tmux", "screen", "make", "sky", "modal", "condor_submit", "watch",
           "find", "crontab", "at"}  # fmt: skip
_TRAINS = re.compile(
    r"\b(swift (sft|rlhf|pt)|torchrun|accelerate launch|deepspeed |trl \w+|llamafactory-cli train|"
    r"train\.py|finetune)"
)


@dataclass(frozen=True)
class Job:
    """One training command, with its launchers peeled off.

    Attributes:
        target: what is trained with: "swift sft", a module's name, a script's path.
        argv: the arguments of the target.
        chain: the launchers, outermost first.
        prefix: the words of the command before ``argv``.
        options: the launchers' own options that matter, by name without dashes.
        nodes, per_node: None where not known; "" in ``world_from`` if nothing says anything.
    """

    call: Call
    target: str
    argv: tuple[str, ...]
    chain: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = 1
    per_node: int | None = None
    launched: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def world(self) -> int | None:
        """Number of ranks; None where it is not known."""
        if self.nodes is None or self.per_node is None:
            return None
        return self.nodes * self.per_node

    @property
    def env(self) -> Mapping[str, str]:
        return self.call.env


def unseen(call: Call) -> bool:
    """Whether the command runs others where this one cannot look."""
    return os.path.basename(call.words[0]) in _UNSEEN


def suspicious(words: Sequence[str]) -> bool:
    """Whether a command that is not seen inside looks as if it trained."""
    return _TRAINS.search(" ".join(words)) is not None


def job(call: Call) -> Job | None:
    """The job that a call starts; None if it starts none that we know of."""
    return _peel(Job(call, "", (), per_node=None), list(call.words), 0)


def _peel(job: Job, words: list[str], depth: int) -> Job | None:
    if not words or depth > 6:
        return None
    name = os.path.basename(words[0])
    if re.fullmatch(r"python[\d.]*|pypy3?", name):
        return _python(job, words, depth)
    reader = _READERS.get(name)
    return reader(job, words, depth) if reader else None


def _end(job: Job, target: str, words: list[str], used: int) -> Job:
    prefix = tuple(job.prefix) + tuple(words[:used])
    return replace(job, target=target, argv=tuple(words[used:]), prefix=prefix)


def _python(job: Job, words: list[str], depth: int) -> Job | None:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            return _module(job, words, at, depth)
        if words[at] in ("-c", "-") or words[at] in ("-V", "--version", "-h"):
            return None
        at += 1 if words[at] in _PYTHON else 2
    return _script(job, words, at)


def _module(job: Job, words: list[str], at: int, depth: int) -> Job | None:
    """``-m MODULE`` at ``words[at]``."""
    if at + 1 >= len(words):
        return None
    module = words[at + 1]
    rest = words[at + 2 :]
    known_ = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
              "accelerate.commands.launch": "accelerate-launch", "deepspeed": "deepspeed",
              "accelerate.commands.accelerate_cli": "accelerate",
              "deepspeed.launcher.runner": "deepspeed", "colossalai.cli": "colossalai",
              "swift.cli.main": "swift", "trl.cli": "trl", "trl": "trl",
              "llamafactory.cli": "llamafactory-cli"}  # fmt: skip
    if module in known_:
        inner = replace(job, prefix=(*job.prefix, *words[: at + 1]))
        peeled = _peel(inner, [known_[module], *rest], depth + 1)
        # what was typed stays: the module's name, not ours for it
        if peeled is None:
            return None
        typed = list(peeled.prefix)
        typed[len(inner.prefix)] = module
        return replace(peeled, prefix=tuple(typed))
    return _end(job, f"-m {module}", words, at + 2)


def _script(job: Job, words: list[str], at: int) -> Job | None:
    if at >= len(words):
        return None
    return _end(job, words[at], words, at + 1)


def _options(words: list[str], at: int, flags: set[str]) -> tuple[dict[str, str], int]:
    """A launcher's options from ``words[at]`` on, and where its target stands."""
    found: dict[str, str] = {}
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, equals, value = words[at].partition("=")
        key = name.lstrip("-").replace("-", "_")
        if name in ("-m", "--module"):
            found["module"] = "true"
            at += 1
        elif equals:
            found[key] = value
            at += 1
        elif name in flags:
            found[key] = "true"
            at += 1
        else:
            found[key] = words[at + 1] if at + 1 < len(words) else ""
            at += 2
    return found, at + (words[at : at + 1] == ["--"])


def count(text: str | None) -> int | None:
    """A number of processes; of an elastic ``1:4`` the larger one."""
    if text is None or not known(text):
        return None
    found = re.fullmatch(r"(?:\d+:)?(\d+)", text.strip())
    return int(found[1]) if found else None


def _visible(job: Job) -> int | None:
    """How many devices the command's own environment names."""
    for name in ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        value = job.env.get(name, "")
        if value and known(value):
            return len([piece for piece in value.split(",") if piece.strip()])
    return None


def _torchrun(job: Job, words: list[str], depth: int) -> Job | None:
    options, at = _options(words, 1, _TORCHRUN)
    nodes = options.get("nnodes", "1")
    per = options.get("nproc_per_node", job.env.get("PET_NPROC_PER_NODE", "1"))
    number = count(per)
    if per in ("gpu", "auto"):
        number = _visible(job)
    told = {"nnodes": count(nodes), "nproc_per_node": number}
    doubts = [f"--{name} is not a number here" for name, value in told.items() if value is None]
    job = replace(job, nodes=count(nodes), per_node=number, launched=True,
                  chain=(*job.chain, "torchrun"), doubts=(*job.doubts, *doubts))  # fmt: skip
    return _target(job, words, at, options, depth)


def _target(job: Job, words: list[str], at: int, options: dict[str, str], depth: int) -> Job | None:
    if at >= len(words):
        return None
    if "module" in options:
        return _end(job, f"-m {words[at]}", words, at + 1)
    if "no_python" in options:
        return _peel(replace(job, prefix=(*job.prefix, *words[:at])), words[at:], depth + 1)
    return _script(job, words, at)


def _accelerate(job: Job, words: list[str], depth: int) -> Job | None:
    if words[1:2] != ["launch"]:
        return None
    return _accelerate_launch(job, words, depth, 2)


def _accelerate_launch(job: Job, words: list[str], depth: int, at: int = 1) -> Job | None:
    options, at = _options(words, at, ACCELERATE)
    nodes = count(options.get("num_machines", "1"))
    world = count(options.get("num_processes"))
    per = world // nodes if world and nodes else None
    job = replace(job, nodes=nodes, per_node=per, launched=True,
                  chain=(*job.chain, "accelerate"),
                  options={**job.options, **options})  # fmt: skip
    return _target(job, words, at, options, depth)


def _deepspeed(job: Job, words: list[str], depth: int) -> Job | None:
    options, at = _options(words, 1, _DEEPSPEED)
    per = count(options.get("num_gpus")) or _included(options) or _visible(job)
    nodes = count(options.get("num_nodes", "1"))
    doubts = []
    if "hostfile" in options and "num_nodes" not in options:
        nodes = None
        doubts = ["--hostfile: the number of nodes is not known"]
    if per is None:
        doubts.append("without --num_gpus: as many ranks as there are GPUs")
    job = replace(job, nodes=nodes, per_node=per, launched=True,
                  chain=(*job.chain, "deepspeed"), doubts=(*job.doubts, *doubts))  # fmt: skip
    return _target(job, words, at, options, depth)


def _included(options: Mapping[str, str]) -> int | None:
    found = re.fullmatch(r"\w+:([\d,]+)", options.get("include", options.get("i", "")))
    return len(found[1].split(",")) if found else None


def _colossalai(job: Job, words: list[str], depth: int) -> Job | None:
    if words[1:2] != ["run"]:
        return None
    options, at = _options(words, 2, {"-m", "--module"})
    hosts = options.get("host", options.get("hostfile"))
    nodes = 1 if hosts is None else len(hosts.split(",")) if "host" in options else None
    job = replace(job, nodes=nodes, per_node=count(options.get("nproc_per_node", "1")),
                  launched=True, chain=(*job.chain, "colossalai run"))  # fmt: skip
    return _target(job, words, at, options, depth)


def _swift(job: Job, words: list[str], depth: int) -> Job | None:
    """``swift sft …``: ms-swift's launcher reads the number of ranks from the environment."""
    if len(words) < 2:
        return None
    env = job.env
    launched = "NPROC_PER_NODE" in env or "NNODES" in env
    nodes, per = env.get("NNODES", "1"), env.get("NPROC_PER_NODE", "1")
    doubts = [f"{name} is not known here" for name, text in
              (("NNODES", nodes), ("NPROC_PER_NODE", per)) if count(text) is None]  # fmt: skip
    job = replace(job, nodes=count(nodes), per_node=count(per), launched=launched,
                  doubts=(*job.doubts, *doubts))  # fmt: skip
    return _end(job, f"{os.path.basename(words[0])} {words[1]}", words, 2)


def _named(job: Job, words: list[str], depth: int) -> Job | None:
    """``trl sft …``, ``llamafactory-cli train …``."""
    if len(words) < 2:
        return None
    return _end(job, f"{os.path.basename(words[0])} {words[1]}", words, 2)


def _runner(skip: int, valued: str = "") -> Callable[[Job, list[str], int], Job | None]:
    """``uv run X``, ``conda run -n env X``, ``poetry run X``."""

    def peel(job: Job, words: list[str], depth: int) -> Job | None:
        if words[1:2] != ["run"]:
            return None
        at = 2
        while at < len(words) and words[at].startswith("-"):
            takes = words[at] in (
                "-n",
                "-p",
                "--name",
                "--prefix",
                "--with",
                "--python",
                "--extra",
                "--project",
                "--directory",
                "--group",
                "-e",
                "--environment",
            )
            at += 2 if takes else 1
        inner = words[at:]
        if inner and inner[0].endswith(".py"):
            return _end(job, inner[0], words, at + 1)
        return _peel(replace(job, prefix=(*job.prefix, *words[:at])), inner, depth + 1)

    return peel


_READERS: dict[str, Callable[[Job, list[str], int], Job | None]] = {
    "torchrun": _torchrun, "accelerate": _accelerate, "accelerate-launch": _accelerate_launch,
    "deepspeed": _deepspeed, "colossalai": _colossalai, "swift": _swift, "megatron": _swift,
    "trl": _named, "llamafactory-cli": _named, "lmf": _named, "uv": _runner(2),
    "conda": _runner(2), "mamba": _runner(2), "micromamba": _runner(2), "poetry": _runner(2),
    "pixi": _runner(2), "pdm": _runner(2), "hatch": _runner(2), "rye": _runner(2),
}  # fmt: skip
