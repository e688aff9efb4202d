"""Commands whose first steps are right and whose end is not, and neighbours of theirs that end
well: what is saved, evaluated and chosen, the last batch, a row far behind, a resumed run."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.frameworks.rehearse import known, odd
from tests.frameworks.rehearse.known import Job
from tests.frameworks.swift.cases import EXTERNAL, FULL, GRPO, LORA
from tests.frameworks.swift.classes import PLAIN, Run, evaluated, zero
from tests.frameworks.trainers.cases import LORA as PEFT
from tests.frameworks.trainers.cases import NONE, UNUSED
from tests.kit import runs, swift
from tests.kit import trainers as kit

PLUGIN = ["--external_plugins", str(EXTERNAL / "late.py")]
EPOCH = ["--max_steps", "-1", "--num_train_epochs", "1"]
UNEVEN = ["--accelerator_config", '{"even_batches": false}']
SAVED = ["--save_strategy", "steps", "--save_steps", "1"]
EVALUATES = ["--eval_strategy", "steps", "--eval_steps", "1", "--per_device_eval_batch_size", "1"]


def best(metric: str) -> list[str]:
    return [*SAVED, "--load_best_model_at_end", "true", "--metric_for_best_model", metric]


def _lf(name: str, **keys: Any) -> odd.Made:
    return odd._lf(name, "alike", eval_dataset="alike", eval_strategy="steps", eval_steps=1,
                   per_device_eval_batch_size=1, save_strategy="steps", save_steps=1,
                   load_best_model_at_end=True, **keys)  # fmt: skip


def _own_reward(fails: bool) -> list[str]:
    name = "fails" if fails else "alternating"
    file = "late.py" if fails else "reward.py"
    return ["--external_plugins", str(EXTERNAL / file), "--reward_funcs", name,
            "--num_generations", "2", "--max_completion_length", "8"]  # fmt: skip


def _many_prompts(name: str, count: int, at: int, *more: str, seen: bool = True) -> odd.Made:
    """So many rows, at one of which the reward fails. seen: whether they have pictures."""

    def build(out: Path) -> None:
        rows = [json.loads(line) for line in (swift.dataset() / "grpo.jsonl").open()]
        rows = [{**rows[n % len(rows)], "solution": f"color {13 if n == at else n % 13}"}
                for n in range(count)]  # fmt: skip
        if not seen:
            asked = [{"role": "user", "content": "what?"}]
            rows = [{"messages": asked, "solution": row["solution"]} for row in rows]
        out.mkdir()
        (out / "grpo.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make() -> Job:
        file = str(runs.built(name, f"{count} rows, {at}, {seen}", build) / "grpo.jsonl")
        flags = [*FULL, *_own_reward(True), *EPOCH, "--dataset", file, *more]
        return known.of_run(Run(name, GRPO, "qwen2_vl", "grpo", flags, "", "",
                                [*flags, *PLAIN]), f"odd-late-{name}")  # fmt: skip

    return make


def _grpo(name: str, reward: str) -> odd.Made:
    def command(_: str, more: Sequence[str]) -> kit.Command:
        return kit.trl("grpo", "grpo_image", *EPOCH, "--reward_funcs", reward, "--num_generations",
                       "2", "--per_device_train_batch_size", "2", "--max_completion_length", "8",
                       "--log_multimodal", "False", *more)  # fmt: skip

    return odd._trainer(name, "alike", command, (), (), "distributeddataparallel")


def _sft(*flags: str) -> kit.Command:
    at = ["--dataset_name", str(odd.rows() / "trl" / "alike")]
    return kit.trl("sft", "alike", *at, *PEFT, *flags)


@functools.cache
def _checkpoint() -> str:
    """What two ranks of ZeRO-2 saved after two steps."""

    def build(out: Path) -> None:
        saves = ["--save_strategy", "steps", "--save_steps", "2", "--output_dir", str(out / "out")]
        done = kit.run(_sft(*saves, *kit.zero(2)), guard=False, timeout=300, cold=False)
        if done.returncode:
            sys.exit(done.output[-4000:])

    return str(runs.built("late-checkpoint", "two ranks, ZeRO-2", build) / "out" / "checkpoint-2")


def _resumed(name: str, ranks: int) -> odd.Made:
    """A command that resumes what two ranks saved."""

    def make() -> Job:
        more = ["--resume_from_checkpoint", _checkpoint(), "--max_steps", "4"]
        command = _sft(*more, *kit.zero(2))
        line = functools.partial(known.of_command, "trl", name, command, ranks)
        reference = _sft(*more, *NONE, *UNUSED)
        asked = odd.of_command(command, reference, "zero2", ranks)
        return Job(name, "trl", line, real=asked, passes=odd.BOTH)

    return make


MANY = ["--per_device_train_batch_size", "32"]
FAR = _many_prompts("swift-reward-far", 200, 149, *MANY, seen=False)
SWIFT = [
    odd._swift("late-swift-metric", "alike", [*LORA, *evaluated("image"), *best("nothing")]),
    odd._swift("late-swift-best", "alike", [*LORA, *evaluated("image"), *best("loss")]),
    odd._swift("late-swift-best-zero3", "alike", [*LORA, *evaluated("image"), *best("loss")],
               zero(3)),
    odd._swift("late-swift-unfreeze", "alike",
               [*LORA, *PLUGIN, "--callbacks", "unfreeze", "--max_steps", "5"]),
    _many_prompts("swift-reward", 24, 13),
    FAR,
    odd._swift("late-swift-reward-right", "kit:grpo", [*FULL, *_own_reward(False)], (),
               "qwen2_vl", GRPO),
    odd._swift("late-swift-epochs", "few", [*LORA, "--max_steps", "-1", "--num_train_epochs", "2",
                                            *SAVED], zero(2)),
    odd._swift("late-swift-generates", "alike",
               [*FULL, *evaluated("image"), "--predict_with_generate", "true",
                "--max_new_tokens", "8", "--eval_metric", "acc"], zero(2)),
]  # fmt: skip
TRL = [
    odd._trl("late-trl-metric", "alike_words", *PEFT, *EVALUATES, *best("nothing")),
    odd._trl("late-trl-best", "alike_words", *PEFT, *EVALUATES, *best("loss")),
    odd._trl("late-trl-best-zero2", "alike_words", *PEFT, *EVALUATES, *best("loss"),
             how=kit.zero(2), wrapped="zero2"),
    odd._trl("late-trl-uneven", "few", *PEFT, *EPOCH, *UNEVEN),
    odd._trl("late-trl-uneven-whole", "alike", *PEFT, *EPOCH, *UNEVEN),
    odd._trl("late-trl-epochs", "few", *PEFT, "--max_steps", "-1", "--num_train_epochs", "2",
             *SAVED, how=kit.zero(3), wrapped="zero3"),
    _resumed("odd-late-trl-resumed-three", 3),
    _grpo("late-trl-reward", "late_reward.reward"),
    _grpo("late-trl-reward-right", "alternating.reward"),
]  # fmt: skip
LLAMAFACTORY = [
    _lf("late-lf-metric", metric_for_best_model="nothing"),
    _lf("late-lf-best", metric_for_best_model="loss"),
    odd._lf("late-lf-epochs", "few", max_steps=-1, num_train_epochs=2, save_strategy="epoch",
            how=odd.LF_ZERO[2], wrapped="zero2"),
    odd._lf("late-lf-generates", "alike", tuning="full", eval_dataset="alike",
            eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=1,
            predict_with_generate=True, max_new_tokens=8),
    odd._lf("late-lf-uneven", "few", max_steps=-1, num_train_epochs=1,
            accelerator_config=json.loads(UNEVEN[1])),
]  # fmt: skip


def jobs(env: str) -> Iterator[Job]:
    """Of one framework."""
    table = {"swift": SWIFT, "trl": TRL, "llamafactory": LLAMAFACTORY}
    yield from (each() for each in table.get(env, ()))
