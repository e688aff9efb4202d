"""A met command → the training job behind its launchers, or why it is none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
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
_HIDDEN = "options that are not known"
_PYTHON_NAME = re.compile(r"python[\d.]*|pypy3?|ipython3?")
_UNSEEN = {"sbatch", "srun", "salloc", "ssh", "docker", "podman", "nerdctl", "kubectl", "mpirun",
           "mpiexec", "pdsh", "qsub", "bsub", "apptainer", "singularity", "helm", "dlc", "parallel",
           "xargs", "ray", "tmux", "screen", "make", "sky", "modal", "condor_submit", "watch",
           "find", "crontab", "at", "batch", "torchx", "bash", "sh", "zsh", "dash",
           "ksh", "source"}  # fmt: skip
_TRAINS = re.compile(
    r"\b(swift (sft|rlhf|pt)|megatron (sft|rlhf|pt)|swift\.cli\.|torchrun|torch\.distributed\.\w+|"
    r"accelerate[- ]launch|deepspeed |trl (sft|dpo|grpo|kto|reward|rloo)|llamafactory-cli train|"
    r"colossalai run|\w*(train|tune|sft|dpo|grpo)\w*\.sh|"
    r"wandb agent|dvc (repro|exp run)|mlflow run|kedro run|papermill|nbconvert .*--execute|"
    r"[\w.-]+\.py\b)|"
    r"(?<![\w./=-])(pre-?train|train|fine-?tune|sft|rlhf|dpo|grpo)(?![\w./=-])"
)
_CODE = re.compile(
    r"\b(from|import) [\w.]*(train|tune|sft)(?=[ ,;]|$)|[\"'](swift\W+(sft|rlhf|pt)|torchrun)\b|"
    r"Trainer\b|\.backward\(|(sft|rlhf|pt|pretrain)_main\(|run_(exp|sft)\(|notebook_launcher\(|"
    r"\.train\(\)",
    re.MULTILINE,
)
# Programs that start no other program, whatever their arguments are.
_ALONE = set(
    """
    7z apt apt-get aws awk base64 black brew bzip2 cat chattr chgrp chmod chown code cp crictl curl
    dd df diff dnf dos2unix du emacs fdfind file flake8 fuser getent gh git grep gsutil gunzip gzip
    head hf huggingface-cli isort jq kill killall less ln ls lsof md5sum mkdir modelscope module
    more mv mypy nano nvidia-smi openssl ossutil pgrep pip pip3 pkill pre-commit ps pylint rclone
    rename rg rm rmdir rsync ruff s3cmd scancel scp sed sha256sum sinfo sleep sort source squeue
    stat streamlit gradio pytest sync tail tar tee tensorboard touch tree truncate uniq unlink unzip
    vi vim wc wget zip zstd
""".split()
)
_TOOLS = {"pip", "venv", "pytest", "build", "ruff", "black", "isort", "flake8", "mypy", "pylint",
          "ipykernel", "jupyter", "notebook", "tensorboard", "nltk", "spacy", "wandb",
          "huggingface_hub", "torch.utils.collect_env", "bitsandbytes", "vllm"}  # fmt: skip


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
    """Whether the command runs others where this one cannot look, or seems to."""
    name = os.path.basename(call.words[0])
    return name in _UNSEEN or name.endswith(".sh") or suspicious(call)


def begins(name: str) -> bool:
    """Whether a program of this name is Python, a launcher, or a script."""
    return bool(_PYTHON_NAME.fullmatch(name)) or name in _READERS or name.endswith((".py", ".sh"))


def suspicious(call: Call) -> bool:
    """Whether a command that is not seen inside looks as if it trained."""
    name = os.path.basename(call.words[0])
    if name in _ALONE:
        return False
    if _PYTHON_NAME.fullmatch(name):  # a script or a module that it runs is a job of its own
        return _CODE.search(" ".join(call.words) + call.code) is not None
    return _TRAINS.search(" ".join(call.words)) is not None


def tool(module: str) -> bool:
    """Whether a module that is started with ``python -m`` is known to train nothing."""
    return module in _TOOLS or module.partition(".")[0] in {*sys.stdlib_module_names, "pip"}


def job(call: Call) -> Job | None:
    """The job that a call starts; None if it starts none that we know of."""
    found = _peel(Job(call, "", (), per_node=None), list(call.words), 0)
    if found is None:
        return None
    found = replace(found, prefix=(*call.around, *found.prefix[call.implied :]))
    if call.many and not found.launched:
        found = replace(found, nodes=None, launched=True,
                        doubts=(*found.doubts, f"{call.many}: how many ranks meet"))  # fmt: skip
    return found


def _peel(job: Job, words: list[str], depth: int) -> Job | None:
    if not words or depth > 6:
        return None
    name = os.path.basename(words[0])
    if _PYTHON_NAME.fullmatch(name):
        return _python(job, words, depth)
    reader = _bare if name.endswith(".py") else _READERS.get(name)
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
        at += 2 if words[at] in ("-X", "-W", "--check-hash-based-pycs") else 1
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
        # the prefix keeps the name that the user typed: the module's
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
    """A launcher's options from ``words[at]`` on, and where its target stands.

    A word that is not known stands for options: its target is the first word behind it.
    """
    found: dict[str, str] = {}
    while at < len(words) and words[at] != "--":
        name, equals, value = words[at].partition("=")
        key = name.lstrip("-").replace("-", "_")
        if not known(words[at]) and not name.startswith("-"):
            found[_HIDDEN] = "true"
            at += 1
        elif not name.startswith("-"):
            break
        elif name in ("-m", "--module"):
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
    number = None if _HIDDEN in options and "nproc_per_node" not in options else count(per)
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
    hidden = (f"{_HIDDEN} here",) if _HIDDEN in options else ()
    job = replace(job, nodes=nodes, per_node=per, launched=True,
                  chain=(*job.chain, "accelerate"), doubts=(*job.doubts, *hidden),
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


def _bare(job: Job, words: list[str], depth: int) -> Job | None:
    """``uv run t.py``, ``srun ./t.py``."""
    return _end(job, words[0], words, 1)


_READERS: dict[str, Callable[[Job, list[str], int], Job | None]] = {
    "torchrun": _torchrun, "dlrover-run": _torchrun, "accelerate": _accelerate,
    "accelerate-launch": _accelerate_launch, "deepspeed": _deepspeed, "colossalai": _colossalai,
    "swift": _swift, "megatron": _swift,
    "trl": _named, "llamafactory-cli": _named, "lmf": _named,
}  # fmt: skip
