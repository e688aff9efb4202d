"""The command line of a drawn run of a framework: what its launcher starts in each rank.

Made by the campaign, which has the test kit; a worker runs it (`commands`).
"""

from __future__ import annotations

import json
from typing import Any

from tests.frameworks.flagembedding import launch
from tests.frameworks.swift import cases as of_swift
from tests.frameworks.trainers import cases as of_trl
from tests.kit import envs, runs, swift, trainers
from tools.ordinary.draws import Draw

SETS = {"image": "image", "phases": "phases", "rare text": "mixed"}
"""The kit's data set for a draw's rows; in one process and under DDP it may be mixed."""
MODEL = "qwen2_vl"
_EVALUATES = {"eval_strategy": "steps", "eval_steps": 2}
_BEST = {"save_strategy": "steps", "save_steps": 4, "load_best_model_at_end": True}


def job(draw: Draw) -> dict[str, Any]:
    """Words, files beside them, and environment variables of a command."""
    told = _job(draw)
    if draw.world == 1:  # flags about ranks do not fit one process
        words = told["words"]
        at = words.index("--ddp_backend") if "--ddp_backend" in words else len(words)
        told["words"] = [*words[:at], *words[at + 2 :]]
        told["files"] = {name: _alone(text) for name, text in told["files"].items()}
    return told


def _alone(text: str) -> str:
    found = json.loads(text)
    found.pop("ddp_backend", None)
    return json.dumps(found)


def _job(draw: Draw) -> dict[str, Any]:
    framework, _, verb = draw.program.partition(" ")
    if framework == "trl":
        return _trl(draw, verb)
    if framework == "llamafactory":
        return _llamafactory(draw, verb)
    return _swift(draw, verb) if framework == "swift" else _flagembedding(draw)


def _steps(draw: Draw) -> dict[str, str]:
    """Flags that all frameworks share; they come last, so they win."""
    told = {
        "max_steps": draw.steps, "gradient_accumulation_steps": draw.accumulation,
        "learning_rate": 0.002, "optim": "adamw_torch", "max_grad_norm": 1.0, "disable_tqdm": True,
        "gradient_checkpointing": draw.checkpointing,
    }  # fmt: skip
    if draw.strategy.startswith("zero"):
        told["max_grad_norm"] = 0.0  # as in the test kit's configurations
    if draw.strategy == "ddp":
        told["ddp_find_unused_parameters"] = draw.rows != "image" or draw.program == "flagembedding"
    return {key: str(value) for key, value in told.items()}


def _evaluation(draw: Draw) -> dict[str, Any]:
    """Its flags: of an evaluation, and of choosing the best checkpoint by it."""
    best = draw.has("load best")
    return {**(_EVALUATES if best or draw.has("evaluation") else {}), **(_BEST if best else {})}


def _as_words(flags: dict[str, Any]) -> list[str]:
    return [word for key, value in flags.items() for word in (f"--{key}", str(value))]


def _flags(draw: Draw) -> list[str]:
    found = _as_words(_steps(draw))
    if draw.checkpointing:
        found += ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
    return found


def _trl(draw: Draw, verb: str) -> dict[str, Any]:
    tuning = {"lora": of_trl.LORA, "lora llm": of_trl.LORA_LLM}.get(draw.tuning, [])
    more = of_trl.GRPO if verb == "grpo" else []
    batch = ["--per_device_train_batch_size", "2"] if verb in ("kto", "grpo") else []
    kind = SETS[draw.rows]
    data = f"{verb}_{'mixed' if verb == 'kto' and kind == 'image' else kind}"
    evaluation = _as_words(_evaluation(draw))
    evaluation += ["--dataset_test_split", "train"] if evaluation else []
    command = trainers.trl(
        verb, data, *more, *batch, *tuning, *_flags(draw), *_strategy(draw), *evaluation
    )
    return _filled(command)


def _strategy(draw: Draw) -> list[str]:
    if draw.strategy.startswith("zero"):
        return trainers.zero(int(draw.strategy[-1]))
    return of_trl.FSDP2 if draw.strategy == "fsdp2" else []


def _llamafactory(draw: Draw, stage: str) -> dict[str, Any]:
    told: dict[str, Any] = {key: _plain(value) for key, value in _steps(draw).items()}
    told["disable_gradient_checkpointing"] = not draw.checkpointing
    told.pop("gradient_checkpointing")
    if draw.checkpointing:
        told["use_reentrant_gc"] = False
    if draw.strategy.startswith("zero"):
        told["deepspeed"] = f"{{data}}/zero{draw.strategy[-1]}.json"
    tuning = "full" if draw.tuning == "full" else "lora"
    tower = of_trl.TOWER if draw.tuning in ("full", "lora") else {}
    data = ("dpo_" if stage == "dpo" else "") + SETS[draw.rows]
    if evaluation := _evaluation(draw):
        told |= {"eval_dataset": data, **evaluation}
    return _filled(trainers.llamafactory(data, stage=stage, tuning=tuning, **told, **tower))


def _plain(text: str) -> Any:
    try:
        return {"True": True, "False": False}.get(text, float(text) if "." in text else int(text))
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def _filled(command: trainers.Command) -> dict[str, Any]:
    places = {"data": str(trainers.tables()), "ranks": "1", "port": "1",
              "model": str(runs.model_folder(command.env, command.model))}  # fmt: skip
    words = trainers.in_each_rank([trainers._filled(word, places) for word in command.words])
    files = {name: trainers._filled(text, places) for name, text in command.files.items()}
    return {"words": words, "files": files, "environment": {"DISABLE_VERSION_CHECK": "1"}}


def _swift(draw: Draw, verb: str) -> dict[str, Any]:
    kind = SETS[draw.rows]
    grpo = "grpo" if kind != "mixed" else "grpo_mixed"
    data = {"sft": kind, "dpo": "dpo_mixed" if kind == "mixed" else "dpo", "grpo": grpo}[verb]
    words = {"sft": of_swift.SFT, "dpo": of_swift.DPO, "grpo": of_swift.GRPO}[verb]
    tuning = of_swift.FULL if draw.tuning == "full" else of_swift.LORA
    towers = [*of_swift.VISION, *of_swift.ALIGNER] if draw.tuning in ("full", "lora") else []
    more = [*of_swift.REWARD, "--per_device_train_batch_size", "2"] if verb == "grpo" else []
    checkpoints = [] if draw.checkpointing else of_swift.NO_CHECKPOINTS
    stage = of_swift.zero(int(draw.strategy[-1])) if draw.strategy.startswith("zero") else []
    evaluation = _as_words(_evaluation(draw))
    evaluation += ["--split_dataset_ratio", "0.3"] if evaluation else []
    evaluation += ["--per_device_eval_batch_size", "2"] if verb == "grpo" and evaluation else []
    flags = [*tuning, *towers, *more, *_flags(draw), *checkpoints, *stage, *evaluation]
    line = swift.command(words, MODEL, data, flags)
    script = next(envs.path("swift").glob("lib/python*/site-packages/swift/cli")) / f"{line[0]}.py"
    return {"words": [str(script), *line[1:]], "files": {},
            "environment": {**swift.OF_SWIFT, "NPROC_PER_NODE": str(draw.world)}}  # fmt: skip


def _flagembedding(draw: Draw) -> dict[str, Any]:
    module = list(launch.MODULES)[draw.number % len(launch.MODULES)]
    flags = _as_words(_steps(draw))
    if draw.checkpointing:
        flags += ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
    if draw.strategy.startswith("zero"):
        flags += ["--deepspeed", f"{{built}}/{draw.strategy}.json"]
    return {"words": launch.arguments(module, flags), "files": {}, "environment": {}}
