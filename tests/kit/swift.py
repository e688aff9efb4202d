"""Runs the real `swift` command in real torchrun ranks on CPU, and tells what became of it.

    outcome = run(["sft"], "qwen2_vl", "image", ["--tuner_type", "lora"], guard=True)
    outcome.returncode, outcome.output, outcome.hung, outcome.ranks, outcome.findings

The same run is made once a session: outcomes are kept in the session's folder, under a lock, so
that tests in several processes share references. Two CPUs a run: more wait for their turn.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parent
sys.path.insert(0, str(KIT.parents[1]))  # also where this file runs as a script's neighbour

from tests.kit import data as datasets  # noqa: E402
from tests.kit import envs, processes  # noqa: E402
from tests.kit.models.families import FAMILIES, MODEL_TYPES  # noqa: E402
from tests.kit.standins.vlmguard_capture import Rank, read  # noqa: E402
from tests.kit.turns import turn  # noqa: E402

CACHE = envs.HOME / ".cache"
MODELS = KIT / "models"

EVERY_RUN = shlex.split("""
    --torch_dtype float32 --fp16 false --bf16 false --use_cpu true --ddp_backend gloo
    --attn_impl eager --check_model false --use_hf true --report_to none
    --optim sgd --max_grad_norm 0 --weight_decay 0 --lora_dropout 0
    --lr_scheduler_type constant --warmup_ratio 0 --seed 42 --data_seed 42
    --split_dataset_ratio 0 --dataloader_num_workers 0
    --per_device_train_batch_size 1 --gradient_accumulation_steps 1
    --max_steps 2 --logging_steps 1
""")
"""On CPU, in float32, and so that weights say what the gradients were: plain SGD, no clipping."""
OF_RELEASE = {
    "swift": "--save_strategy no --dataset_shuffle false --train_dataloader_shuffle false",
    # 3.2.0 fails after training when it was told to save nothing.
    "swift32": "--save_strategy steps --save_steps 1000 --save_only_model true",
}
LEARNING_RATES = {"lora": "1", "full": "0.1"}
"""High enough that no update drowns in float32 rounding."""

QUIET = 60.0
"""Seconds without a line of output after which a training run counts as hung; imports count
too, so a busy machine needs this much."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    command: Sequence[str]
    folder: str
    returncode: int
    seconds: float
    hung: bool
    survivors: Sequence[int]
    """Processes of the run that outlived the command (and were then ended)."""
    lines: Sequence[tuple[float, str]]
    """What it printed, standard error included, each line with its second."""

    @property
    def output(self) -> str:
        """All that was printed."""
        return "\n".join(text for _, text in self.lines)

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """The weights, of those ranks that finished training; read afresh, they are large."""
        return read(Path(self.folder) / "capture")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What the guard reported, of all processes, in the order of time."""
        return [record for record in self.report() if record["kind"] == "finding"]

    def fixed(self) -> set[str]:
        """The codes of what the guard mended."""
        return {found["code"] for found in self.findings if found["outcome"] == "fixed"}

    def report(self) -> list[dict[str, Any]]:
        """All lines of the guard's JSON reports."""
        files = (Path(self.folder) / "report").glob("*.jsonl")
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(records, key=lambda record: record["time"])

    def seconds_after(self, pattern: str) -> float:
        """From the first line that matches to the end of the run."""
        first = next(second for second, text in self.lines if re.search(pattern, text))
        return self.seconds - first

    def __str__(self) -> str:
        end = "hung" if self.hung else f"exit {self.returncode}"
        tail = "\n".join(text[:400] for _, text in self.lines[-60:])
        return f"$ {shlex.join(self.command)}\n{tail}\n[{end} after {self.seconds:.0f} s]"


def command(
    verb: Sequence[str],
    model: str,
    data: str,
    flags: Sequence[str],
    env: str = "swift",
    over: str = "",
) -> list[str]:
    """The whole command line after `swift`; the flags come last, so they win."""
    name = FAMILIES[model][1]
    rate = LEARNING_RATES["full" if "full" in flags else "lora"]
    places = ["--model", str(model_folder(env, model, over))]
    places += ["--dataset", f"{dataset()}/{data}.jsonl"]
    types = ["--model_type", MODEL_TYPES.get(name, name), "--template", name]
    types += ["--learning_rate", rate]
    return [*verb, *places, *types, *EVERY_RUN, *shlex.split(OF_RELEASE[env]), *flags]


def run(
    verb: Sequence[str],
    model: str,
    data: str,
    flags: Sequence[str] = (),
    *,
    guard: bool,
    env: str = "swift",
    over: str = "",
    world: int = 2,
    timeout: float = 420,
    quiet: float = QUIET,
    extra: Mapping[str, str | None] | None = None,
) -> Outcome:
    """Run `swift …` in `world` ranks, or return what became of it earlier in this session.

    Args:
        verb: `["sft"]`, or `["rlhf", "--rlhf_type", "dpo"]`.
        model: a family of models/families.py.
        data: a data set of data.py.
        env: an environment of constraints.txt.
        over: a section of constraints.txt that is laid over it.
        extra: environment variables besides the usual ones; None takes one away.
    """
    line = command(verb, model, data, flags, env, over)
    extra = {"NPROC_PER_NODE": str(world), **(extra or {})}
    key = json.dumps([line, env, over, guard, extra])
    folder = session() / hashlib.sha256(key.encode()).hexdigest()[:16]
    with _locked(folder.with_suffix(".lock")):
        kept = folder / "outcome.json"
        if not kept.exists():
            shutil.rmtree(folder, ignore_errors=True)
            for each in ("home", "work", "tmp"):
                (folder / each).mkdir(parents=True)
            with turn():
                every = _variables(env, folder, guard, over) | extra
                variables = {name: value for name, value in every.items() if value is not None}
                outcome = _execute(line, env, folder, variables, timeout, quiet)
            _tidy(folder)
            kept.write_text(json.dumps(asdict(outcome)))
        return Outcome(**json.loads(kept.read_text()))


def _execute(
    command: Sequence[str],
    env: str,
    folder: Path,
    variables: dict[str, str],
    timeout: float,
    quiet: float,
) -> Outcome:
    swift = envs.program(env, "swift")
    ended = processes.watch(
        [swift, *command], variables, folder / "work", timeout=timeout, quiet=quiet
    )
    return Outcome(["swift", *command], str(folder), **asdict(ended))


def _variables(env: str, folder: Path, guard: bool, over: str) -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's but the search path."""
    variables = {
        "PATH": f"{envs.path(env) / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": _path(env, over),
        "LANG": "C.UTF-8",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "MAX_PIXELS": "16384",
        "MASTER_PORT": str(_free_port()),
        "VLMGUARD_TEST_CAPTURE": str(folder / "capture"),
        "VLMGUARD_REPORT": str(folder / "report" / "findings.jsonl"),
    }
    return variables if guard else {**variables, "VLMGUARD": "off"}


def _path(env: str, over: str) -> str:
    from tests.kit import overlays

    laid = [str(overlays.folder(over, env))] if over else []
    return os.pathsep.join([str(KIT / "standins"), *envs.SOURCES, *laid])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tidy(folder: Path) -> None:
    """Checkpoints and caches are not looked at, and large."""
    for each in ("home", "work", "tmp"):
        shutil.rmtree(folder / each, ignore_errors=True)


@functools.cache
def session() -> Path:
    """Where this test session keeps its runs; the same for all its processes."""
    if "VLMGUARD_TEST_SESSION" not in os.environ:
        os.environ["VLMGUARD_TEST_SESSION"] = tempfile.mkdtemp(prefix="vlmguard-runs-")
    return Path(os.environ["VLMGUARD_TEST_SESSION"])


@functools.cache
def dataset() -> Path:
    """The folder of data sets, built when their recipe is new."""
    return _built("data", (KIT / "data.py").read_text(), datasets.build)


@functools.cache
def model_folder(env: str, family: str, over: str = "") -> Path:
    """A tiny checkpoint for this environment, built by it when its recipe is new."""
    pins = [*envs.sections()[env], *envs.sections().get(over, [])]
    modules = ("tiny", "tiny_qwen", FAMILIES[family][0])
    recipe = "\n".join([(MODELS / f"{name}.py").read_text() for name in modules] + pins)
    python = envs.program(env)

    def build(out: Path) -> None:
        variables = {**os.environ, "PYTHONPATH": _path(env, over), "VLMGUARD": "off"}
        command = [python, str(MODELS), str(out), family]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cannot build {family} in {env}:\n{done.stderr[-4000:]}")

    return _built(f"{over or env}-{family}", recipe, build)


def _built(name: str, recipe: str, build: Any) -> Path:
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    folder = CACHE / f"{name}-{digest}"
    with _locked(CACHE / f"{name}.lock"):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            (folder / ".whole").touch()
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
