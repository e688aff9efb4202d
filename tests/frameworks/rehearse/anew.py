"""Commands drawn anew by a seed, over what no list of ours holds together: framework, class, what
trains, strategy, two to four ranks, launcher and odd flags, of which some fail late."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.frameworks.rehearse import known, late, odd, real, written
from tests.frameworks.rehearse.known import Job
from tests.frameworks.swift.cases import DPO, FULL, LORA, SFT
from tests.frameworks.swift.classes import PLAIN, SAME, TRAINED, Run, evaluated, zero
from tests.frameworks.trainers.cases import LORA as PEFT
from tests.frameworks.trainers.cases import NONE, TOWER, UNCHECKED, UNUSED
from tests.kit import swift
from tests.kit import trainers as kit

MODELS = ("qwen2_vl", "qwen2_5_vl", "gemma3")
RANKS = (2, 2, 3, 4)
STAGES = (0, 0, 1, 2, 3)
ROWS = ("alike", "alike", "kinds", "few", "words", "unlike")
EPOCHS = ["--max_steps", "-1", "--num_train_epochs", "2"]
FLAGS: dict[str, list[str]] = {
    "plain": [],
    "batches": odd.BATCHES,
    "three": odd.THREE,
    "tokens": odd.OWN_TOKENS,
    "epochs": EPOCHS,
    "saved": [*EPOCHS, "--save_strategy", "epoch"],
    "warm": ["--warmup_steps", "1", "--weight_decay", "0.1"],
    "clipped": ["--max_grad_norm", "0.5"],
    "whole": [*EPOCHS, "--dataloader_drop_last", "true"],
    "reentrant": ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}'],
}
MORE: dict[str, list[str]] = {
    "cosine": [*EPOCHS, "--lr_scheduler_type", "cosine"],
    "four": [*EPOCHS, "--gradient_accumulation_steps", "4"],
    "workers": ["--dataloader_num_workers", "2", *odd.BATCHES],
    "unchecked": ["--gradient_checkpointing", "false"],
    "columns": ["--remove_unused_columns", "false"],
    "kept": [*EPOCHS, "--save_strategy", "steps", "--save_steps", "1", "--save_total_limit", "1",
             "--save_only_model", "true"],
}  # fmt: skip
LATE: dict[str, dict[str, list[str]]] = {
    "swift": {"best": [*evaluated("image"), *late.best("loss")],
              "metric": [*evaluated("image"), *late.best("no_such")]},
    "trl": {"uneven": [*late.EPOCH, *late.UNEVEN],
            "metric": ["--dataset_test_split", "train", *late.EVALUATES, *late.best("no_such")],
            "best": ["--dataset_test_split", "train", *late.EVALUATES, *late.best("loss")]},
    "llamafactory": {},
}  # fmt: skip
DRAWS = (
    (20260729, 48, FLAGS, ROWS),
    (20261130, 24, {**FLAGS, **MORE}, (*ROWS, "dpo_kinds", "dpo_unlike")),
)
"""(seed, how many, flags, rows) of each draw."""


def jobs(env: str) -> Iterator[Job]:
    """The drawn ones of one framework, in the order of the draws."""
    for seed, many, flags, rows in DRAWS:
        draw = random.Random(seed)
        for number in range(many):
            drawn = _drawn(draw, flags, rows)
            if drawn["env"] == env:
                yield _MAKERS[env](f"anew-{seed % 10000}-{number}", drawn)


def _drawn(
    draw: random.Random, every: Mapping[str, list[str]], rows: Sequence[str]
) -> dict[str, Any]:
    env = draw.choice(("swift", "trl", "llamafactory"))
    flags = {**every, **LATE[env]}
    styles = ("line", "script", "yaml", "accelerate")
    return {
        "env": env, "model": draw.choice(MODELS), "ranks": draw.choice(RANKS),
        "stage": draw.choice(STAGES), "rows": draw.choice(rows), "lora": draw.random() < 0.6,
        "vision": draw.random() < 0.4, "style": draw.choice(styles),
        "odd": (name := draw.choice(sorted(flags))), "flags": flags[name],
    }  # fmt: skip


def _name(name: str, drawn: dict[str, Any]) -> str:
    how = f"zero{drawn['stage']}" if drawn["stage"] else "ddp"
    what = "lora" if drawn["lora"] else "tower" if drawn["vision"] else "full"
    parts = (drawn["env"], drawn["model"], what, how, drawn["ranks"], drawn["rows"], drawn["odd"])
    return "-".join(map(str, (name, *parts)))


def _swift(name: str, drawn: dict[str, Any]) -> Job:
    data = odd.rows() / f"{drawn['rows']}.jsonl"
    tuning = LORA if drawn["lora"] else TRAINED if drawn["vision"] else FULL
    flags = [*tuning, *drawn["flags"], "--dataset", str(data)]
    stage = drawn["stage"]  # our own configurations have buckets that a tiny model fills
    how = zero(stage) if stage > 1 else ["--deepspeed", "zero1"] if stage else []
    same = SAME if drawn["lora"] else {}
    verb = DPO if drawn["rows"].startswith("dpo_") else SFT
    run = Run(_name(name, drawn), verb, drawn["model"], "image", [*flags, *how], "", "",
              [*flags, *PLAIN], drawn["ranks"], extra=dict(same))  # fmt: skip
    words = [flag.replace("{data}", str(swift.dataset())) for flag in run.flags]
    words = swift.command(verb, run.model, "image", words)
    env = {"NPROC_PER_NODE": str(run.world), "MAX_PIXELS": "16384"}
    line = functools.partial(written.STYLES[drawn["style"]], run.name, words, env)
    return Job(run.name, "swift", line, real=real.of_run(run))


def _trl(name: str, drawn: dict[str, Any]) -> Job:
    def command(how: Sequence[str]) -> kit.Command:
        at = ["--dataset_name", str(odd.rows() / "trl" / drawn["rows"])]
        tuning = PEFT if drawn["lora"] else []
        verb = "dpo" if drawn["rows"].startswith("dpo_") else "sft"
        return kit.trl(verb, drawn["rows"], *at, *tuning, *drawn["flags"], *how,
                       model=drawn["model"], module=drawn["style"] == "script")  # fmt: skip

    how = kit.zero(drawn["stage"]) if drawn["stage"] else []
    return _of(name, drawn, command(how), command([*NONE, *UNUSED]))


def _llamafactory(name: str, drawn: dict[str, Any]) -> Job:
    pairs = zip(drawn["flags"][::2], drawn["flags"][1::2], strict=True)
    keys = {flag.removeprefix("--"): value for flag, value in pairs}
    keys.pop("gradient_checkpointing_kwargs", None)  # its own default is the same
    tower = TOWER if drawn["vision"] and not drawn["lora"] else {}

    def command(how: dict[str, Any]) -> kit.Command:
        place = {"dataset_dir": str(odd.rows() / "llamafactory")}
        stage = "dpo" if drawn["rows"].startswith("dpo_") else "sft"
        return kit.llamafactory(drawn["rows"], model=drawn["model"], stage=stage,
                                tuning="lora" if drawn["lora"] else "full",
                                **{**place, **tower, **_typed(keys), **how})  # fmt: skip

    how = odd.LF_ZERO[drawn["stage"]] if drawn["stage"] else {}
    plain = {**UNCHECKED, "ddp_find_unused_parameters": True}
    return _of(name, drawn, command(dict(how)), command(plain))


def _typed(keys: dict[str, str]) -> dict[str, Any]:
    words = {"true": True, "false": False}
    return {key: words.get(value, float(value) if value.replace(".", "").lstrip("-").isdigit() and
                           "." in value else int(value) if value.lstrip("-").isdigit() else value)
            for key, value in keys.items()}  # fmt: skip


def _of(name: str, drawn: dict[str, Any], one: kit.Command, other: kit.Command) -> Job:
    full, ranks = _name(name, drawn), drawn["ranks"]
    line = functools.partial(known.of_command, one.env, full, one, ranks)
    wrapped = f"zero{drawn['stage']}" if drawn["stage"] else "distributeddataparallel"
    return Job(full, one.env, line, real=odd.of_command(one, other, wrapped, ranks))


_MAKERS = {"swift": _swift, "trl": _trl, "llamafactory": _llamafactory}
