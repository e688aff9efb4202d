"""Runs real commands of TRL, LLaMA-Factory, accelerate and a plain `train.py` in torchrun ranks.

    outcome = run(trl("sft", "sft_phases", *zero(3)), guard=True)
    outcome.returncode, outcome.output, outcome.hung, outcome.ranks, outcome.findings

A command is data: words in which `{data}` stands for the folder that tables.py makes, `{model}` for
the checkpoint and `{port}` for a free port; LLaMA-Factory's YAML is a file beside it.
"""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.kit import envs, runs, warm
from tests.kit.runs import KIT, Outcome
from vlmguard.ranks import ports

PROGRAMS = KIT / "programs"
COMMON = shlex.split("""
    --optim sgd --learning_rate 0.5 --lr_scheduler_type constant --max_grad_norm 0 --max_steps 2
    --per_device_train_batch_size 1 --gradient_accumulation_steps 1 --report_to none
    --save_strategy no --logging_steps 1 --seed 1 --output_dir out
""")
"""So that weights say what the gradients were: plain SGD, no clipping."""
ON_CPU = ["--use_cpu"]
IN_ORDER = ["--train_sampling_strategy", "sequential"]
"""From transformers 5; before, rows are drawn in an order that the seed decides."""
OF_TRL = shlex.split("--bf16 False --dtype float32 --attn_implementation eager")
OF_LLAMAFACTORY: Mapping[str, Any] = {
    "do_train": True,
    "dataset_dir": "{data}/llamafactory",
    "cutoff_len": 1024,
    "output_dir": "out",
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "learning_rate": 0.5,
    "lr_scheduler_type": "constant",
    "max_steps": 2,
    "max_grad_norm": 0.0,
    "optim": "sgd",
    "use_cpu": True,
    "ddp_backend": "gloo",
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "seed": 1,
    "flash_attn": "disabled",
    "disable_shuffling": True,
    "preprocessing_num_workers": 1,
    "dataloader_num_workers": 0,
    "image_max_pixels": 3136,
    "video_max_pixels": 3136,
    "video_maxlen": 2,
}


_PORTS = ("--master_port", "--main_process_port")
"""The last flags that are the launcher's, here."""


TEMPLATES = {"qwen2_5_vl": "qwen2_vl", "qwen2_5_vl_deep": "qwen2_vl", "qwen3": "qwen"}
"""Where LLaMA-Factory's template is not the family's name."""


@dataclass(frozen=True)
class Command:
    """What a user types, and where it runs.

    Attributes:
        words: of the command line; `{data}`, `{model}`, `{port}` and `{ranks}` are filled in.
        files: beside it, by name; filled in as the words are.
        env: an environment of constraints.txt.
        over: a section of constraints.txt that is laid over it.
    """

    words: Sequence[str]
    model: str = "qwen2_vl"
    env: str = "trl"
    over: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def framework(self) -> str:
        """Whose profile is to guard it."""
        if self.env == "llamafactory":
            return "LLaMA-Factory"
        named = {"loop": "accelerate", "train": "transformers", "language": "transformers"}
        scripts = (Path(word).stem for word in self.words if word.endswith(".py"))
        return next((named[script] for script in scripts if script in named), "TRL")

    def also(self, *words: str) -> Command:
        """The same with more flags, which win."""
        return replace(self, words=[*self.words, *words])


def zero(stage: int) -> list[str]:
    """DeepSpeed, with buckets as small as the model."""
    return ["--deepspeed", f"{{data}}/zero{stage}.json"]


def trl(verb: str, data: str, *flags: str, model: str = "qwen2_vl", over: str = "",
        module: bool = False) -> Command:  # fmt: skip
    """`trl sft …`, or the same script under torchrun's `-m`."""
    launcher = ["trl", verb, "--multi_gpu", "--num_processes", "{ranks}",
                "--main_process_port", "{port}"]  # fmt: skip
    if module:
        launcher = [*_torchrun(), "-m", f"trl.scripts.{verb}"]
    places = ["--model_name_or_path", "{model}", "--dataset_name", f"{{data}}/trl/{data}"]
    order = [] if over else IN_ORDER
    words = [*launcher, *places, *COMMON, *ON_CPU, *OF_TRL, *order, *flags]
    return Command(words, model, over=over)


def plain(data: str, *flags: str, model: str = "qwen2_vl", over: str = "",
          launcher: Sequence[str] = ()) -> Command:  # fmt: skip
    """`torchrun train.py …` around a plain Trainer, or by another launcher."""
    script = [*(launcher or _torchrun()), str(PROGRAMS / "train.py")]
    script += ["--model", "{model}", "--data", data]
    order = [] if over else IN_ORDER
    words = [*script, *COMMON, *ON_CPU, "--ddp_backend", "gloo", *order, *flags]
    return Command([*words, "--dataloader_pin_memory", "False"], model, over=over)


def script(name: str, *flags: str, over: str = "") -> Command:
    """`torchrun NAME.py …`: a user's own script of tests/kit/programs around a trainer of TRL's."""
    words, _, verb = name.partition(" ")
    line = [*_torchrun(), str(PROGRAMS / f"{words}.py"), *verb.split(), "--model", "{model}"]
    order = [] if over else IN_ORDER
    return Command([*line, *COMMON, *ON_CPU, "--bf16", "False", *order, *flags], over=over)


def loop(data: str, *flags: str, model: str = "qwen2_vl") -> Command:
    """A training loop of the user's own, around Accelerator.prepare."""
    script = [*_torchrun(), str(PROGRAMS / "loop.py"), "--model", "{model}", "--data", data]
    return Command([*script, *flags], model)


def llamafactory(data: str, *, model: str = "qwen2_vl", stage: str = "sft", tuning: str = "lora",
                 over: str = "", words: Sequence[str] = (), **keys: Any) -> Command:  # fmt: skip
    """`llamafactory-cli train train.yaml`, with ``keys`` in the YAML."""
    told = {
        **OF_LLAMAFACTORY,
        "model_name_or_path": "{model}",
        "template": TEMPLATES.get(model, model),
        "dataset": data,
        "stage": stage,
        "finetuning_type": tuning,
        **({"lora_target": "all", "lora_rank": 4} if tuning == "lora" else {}),
        **keys,
    }
    return Command(
        ["llamafactory-cli", "train", "train.yaml", *words],
        model,
        env="llamafactory",
        over=over,
        files={"train.yaml": json.dumps(told)},  # JSON is YAML
        extra={
            "FORCE_TORCHRUN": "1",
            "NPROC_PER_NODE": "{ranks}",
            "DISABLE_VERSION_CHECK": "1" if over else "0",
        },
    )


def run(
    command: Command,
    *,
    guard: bool,
    ranks: int = 2,
    timeout: float = 240,
    quiet: float = runs.QUIET,
    extra: Mapping[str, str | None] | None = None,
    cold: bool = True,
) -> Outcome:
    """Run it, or return what became of it earlier in this session.

    Args:
        extra: environment variables besides the usual ones; None takes one away.
        cold: by the command itself; else ranks are forked from a process that has imported the
            framework (`warm`).
    """
    env, over = command.env, command.over
    places = {
        "data": str(tables()),
        "model": str(runs.model_folder(env, command.model, over)),
        "ranks": str(ranks),
    }
    words = [_filled(word, places) for word in command.words]
    files = {name: _filled(text, places) for name, text in command.files.items()}
    more = {name: _filled(text, places) for name, text in command.extra.items()}

    def make(folder: Path) -> Outcome:
        port = str(ports.free())
        line = [_filled(word, {"port": port}) for word in words]
        every: dict[str, str | None] = {**_variables(env, folder, guard, over), **more}
        every |= {"MASTER_PORT": port, **dict(extra or {})}
        if not cold:
            given = {name: value for name, value in every.items() if value is not None}
            return warm.execute(env, in_each_rank(line), folder, given, world=ranks,
                                timeout=timeout, quiet=quiet, files=files,
                                shown=line)  # fmt: skip
        program = [envs.program(env, line[0]), *line[1:]]
        return runs.execute(program, folder, every, timeout, quiet, files)

    key = [words, files, more, env, over, guard, ranks, dict(extra or {}), cold]
    return runs.once(key, make)


def in_each_rank(line: Sequence[str]) -> list[str]:
    """What the launcher of a command starts: a script, or "-m" and a module, with its flags."""
    if line[0] == "llamafactory-cli":
        return ["-m", "llamafactory.launcher", *line[2:]]
    own = line[next(n for n, word in enumerate(line) if word in _PORTS) + 2 :]
    return ["-m", f"trl.scripts.{line[1]}", *own] if line[0] == "trl" else list(own)


def _filled(text: str, places: Mapping[str, str]) -> str:
    """Not `str.format`: JSON has braces of its own."""
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _variables(env: str, folder: Path, guard: bool, over: str) -> dict[str, str]:
    found = runs.variables(env, folder, guard, over)
    stubs = [str(KIT / "stubs")] if env == "llamafactory" else []
    path = ":".join([str(PROGRAMS), *stubs, found["PYTHONPATH"]])
    return {**found, "PYTHONPATH": path, "TRL_EXPERIMENTAL_SILENCE": "1", "CI": "1"}


DEEPSPEED = ["deepspeed", "--num_gpus", "{ranks}", "--master_port", "{port}"]
"""DeepSpeed's own launcher."""
ACCELERATE = ["accelerate", "launch", "--multi_gpu", "--num_processes", "{ranks}",
              "--main_process_port", "{port}"]  # fmt: skip
"""accelerate's, as TRL's commands use it."""


def _torchrun() -> list[str]:
    return ["torchrun", "--nproc_per_node", "{ranks}", "--master_port", "{port}"]


@functools.cache
def tables() -> Path:
    """The folder of data sets and DeepSpeed's configs, built when their recipe is new."""
    recipe = "\n".join((KIT / name).read_text() for name in ("data.py", "tables.py"))

    def build(out: Path) -> None:
        command = [envs.program("trl"), str(KIT / "tables.py"), str(out)]
        variables = {"PATH": "/usr/bin:/bin", "HOME": str(out), "VLMGUARD": "off"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cannot build the data sets:\n{done.stderr[-4000:]}")

    return runs.built("tables", recipe, build)
