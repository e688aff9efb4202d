"""The runs that are upset, as data: of each framework one that is healthy and one that is not."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.frameworks.flagembedding import launch
from tests.frameworks.flagembedding.cases import CHECKPOINTS as FE_CHECKPOINTS
from tests.frameworks.flagembedding.cases import ONE_FORWARD
from tests.frameworks.swift.cases import LLAVA
from tests.frameworks.swift.cases import zero as swift_zero
from tests.frameworks.trainers.cases import (
    ALL,
    CHECKPOINTS,
    LF_ZERO3,
    LORA,
    REENTRANT,
    TOWER,
    sft,
)
from tests.kit import envs, runs, swift, trainers
from tests.kit.trainers import Command, llamafactory, loop, plain, zero

DRY = {"VLMGUARD_DRY_STEP": "1"}
EVALUATED = ["--eval_strategy", "steps", "--eval_steps", "2", "--eval_on_start", "true"]
PRELOAD = {
    "trl": ["transformers.trainer", "transformers.models.qwen2_vl.modeling_qwen2_vl", "peft",
            "deepspeed", "trl.scripts.sft", "trl.trainer.sft_trainer", "accelerate"],
    "swift": ["swift.pipelines", "swift.trainers", "deepspeed", "peft",
              "swift.trainers.trainer_factory", "swift.trainers.seq2seq_trainer",
              "transformers.models.qwen2_vl.modeling_qwen2_vl",
              "transformers.models.llava.modeling_llava"],
    "llamafactory": ["llamafactory.train.tuner", "deepspeed", "peft",
                     "transformers.models.qwen2_vl.modeling_qwen2_vl"],
    "flagembedding": ["FlagEmbedding.finetune.embedder.decoder_only.base.runner",
                      "FlagEmbedding.finetune.reranker.decoder_only.base.runner"],
    "colossalai": ["tools.faults.booster", "colossalai.booster.plugin", "peft",
                   "transformers.models.qwen2_vl.modeling_qwen2_vl"],
}  # fmt: skip
LAUNCHERS = {"llamafactory-cli": ["-m", "llamafactory.launcher"]}


@dataclass(frozen=True)
class Scenario:
    """A run in two ranks.

    Attributes:
        healthy: whether it is right without the guard.
        words: what Python runs in each rank; `{…}` as in `tests.kit.trainers.Command`.
        files: written into the folder it runs in.
    """

    name: str
    env: str
    healthy: bool
    words: Callable[[], Sequence[str]]
    files: Callable[[], Mapping[str, str]] = dict
    environment: Mapping[str, str] = field(default_factory=dict)


def _of(name: str, healthy: bool, command: Command, **environment: str) -> Scenario:
    return Scenario(
        name, command.env, healthy, functools.partial(_words, command),
        functools.partial(_files, command), environment,
    )  # fmt: skip


def _places(command: Command) -> dict[str, str]:
    return {
        "{data}": str(trainers.tables()),
        "{model}": str(runs.model_folder(command.env, command.model, command.over)),
        "{ranks}": "2",
    }


def _fill(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(name, value)
    return text


def _words(command: Command) -> list[str]:
    """Without the launcher: what it starts in each rank."""
    words = [_fill(word, _places(command)) for word in command.words]
    if words[0] == "torchrun":
        return words[words.index("--master_port") + 2 :]
    return [*LAUNCHERS[words[0]], *words[2:]]


def _files(command: Command) -> dict[str, str]:
    return {name: _fill(text, _places(command)) for name, text in command.files.items()}


def _swift(
    name: str, healthy: bool, data: str, *flags: str, model: str = "qwen2_vl", **environment: str
) -> Scenario:
    def words() -> list[str]:
        filled = [flag.replace("{data}", str(swift.dataset())) for flag in flags]
        verb, *line = swift.command(["sft"], model, data, filled)
        return ["-m", f"swift.cli.{verb}", *line]

    return Scenario(name, "swift", healthy, words, dict, {**swift.OF_SWIFT, **environment})


def _flagembedding(name: str, healthy: bool, module: str, flags: Sequence[str],
                   **environment: str) -> Scenario:  # fmt: skip
    words = functools.partial(launch.arguments, module, flags)
    return Scenario(name, launch.ENV, healthy, words, dict, environment)


def _booster(name: str, healthy: bool, *steps: Any, **environment: str) -> Scenario:
    def words() -> list[str]:
        told = {"models": str(_colossalai_models()), "steps": steps, "precision": "fp16"}
        return ["-m", "tools.faults.booster", json.dumps(told)]

    return Scenario(name, "colossalai", healthy, words, dict, environment)


@functools.cache
def _colossalai_models() -> Path:
    here = Path(__file__).resolve().parents[2] / "tests" / "frameworks" / "colossalai"
    recipe = "".join((here / name).read_text() for name in ("models.py", "known.py"))

    def build(out: Path) -> None:
        command = [envs.program("colossalai"), str(here / "models.py")]
        given = {**runs.variables("colossalai", out, guard=False), "HOME": str(out)}
        subprocess.run([*command, str(out / "qwen2_vl"), "qwen2_vl"], env=given, check=True,
                       capture_output=True)  # fmt: skip

    return runs.built("colossalai-qwen2_vl", recipe, build)


SWIFT_LORA = ("--tuner_type", "lora")
SCENARIOS = {
    each.name: each
    for each in (
        _of("plain", True, plain("image", *CHECKPOINTS, *ALL, "--evaluate", "mixed", *EVALUATED),
            **DRY),
        _of("plain-reentrant", False, plain("image", *CHECKPOINTS, *REENTRANT, *ALL)),
        _of("plain-zero3", False, plain("phases", *CHECKPOINTS, *zero(3))),
        _of("trl", True, sft("image", *LORA, module=True), **DRY),
        _of("trl-zero3", False, sft("phases", *zero(3), module=True)),
        _of("accelerate", True, loop("image", "--checkpointing", "default")),
        _of("accelerate-idle", False, loop("mixed", "--checkpointing", "default")),
        _swift("swift", True, "image", *SWIFT_LORA, "--val_dataset", "{data}/image.jsonl",
               "--eval_strategy", "steps", "--eval_steps", "1", **DRY),
        _swift("swift-reentrant", False, "image", *SWIFT_LORA, *REENTRANT),
        _swift("swift-zero3", False, "phases", *LLAVA, *swift_zero(3), model="llava"),
        _of("llamafactory", True, llamafactory("image"), **DRY),
        _of("llamafactory-zero3", False, llamafactory("iv", deepspeed=LF_ZERO3, **TOWER)),
        _flagembedding("flagembedding", True, ONE_FORWARD.module, ONE_FORWARD.flags, **DRY),
        _flagembedding("flagembedding-reentrant", False, "embedder_decoder", FE_CHECKPOINTS),
        _booster("colossalai", True, "image", "image", **DRY),
        _booster("colossalai-idle", False, "image", ["image", "text"]),
    )
}
