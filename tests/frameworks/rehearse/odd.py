"""Commands unlike those that tests know: options that nobody else varies, rows that a framework
drops or cuts, scripts as users write them. Real ranks have to be asked for each.

`Odd.why` says what is suspicious of it; the most suspicious come first.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.frameworks.rehearse import known, odd_rows, real, written
from tests.frameworks.rehearse.known import Job, Line
from tests.frameworks.swift.cases import ALIGNER, DPO, FULL, LORA, SFT, VISION
from tests.frameworks.swift.classes import PLAIN, SAME, TRAINED, VIDEO, Run, evaluated, zero
from tests.frameworks.trainers.cases import CASES, NONE, TOWER, UNCHECKED, UNUSED
from tests.frameworks.trainers.cases import LORA as PEFT
from tests.kit import envs, runs, swift
from tests.kit import trainers as kit

BOTH = ("off", "on")
UNLIKE = {"phases": "unlike", "dpo_phases": "dpo_unlike"}
"""Rows of the same kinds on which ranks differ at every step: what a rehearsal forces."""
BATCHES = ["--per_device_train_batch_size", "2"]
THREE = ["--gradient_accumulation_steps", "3"]
ALIGNER_ALONE = [*FULL, "--freeze_llm", "true", "--freeze_vit", "true", *ALIGNER]
TOWER_ADAPTERS = [*LORA, "--freeze_llm", "true", *VISION]
ROUND_ROBIN = json.dumps({
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto", "gradient_clipping": 0, "zero_allow_untested_optimizer": True,
    "zero_optimization": {"stage": 2, "round_robin_gradients": True, "overlap_comm": True,
                          "reduce_bucket_size": 1000, "allgather_bucket_size": 20000},
})  # fmt: skip
OWN_TOKENS = ["--average_tokens_across_devices", "false"]
ORPO, SIMPO = ["rlhf", "--rlhf_type", "orpo"], ["rlhf", "--rlhf_type", "simpo"]


@functools.cache
def rows() -> Path:
    """The folder of their rows."""
    recipe = Path(odd_rows.__file__).read_text("utf-8") + (kit.KIT / "data.py").read_text("utf-8")

    def build(out: Path) -> None:
        command = [envs.program("trl"), str(Path(odd_rows.__file__)), str(out), str(kit.KIT)]
        variables = {"PATH": "/usr/bin:/bin", "HOME": str(out), "VLMGUARD": "off"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cannot build the rows:\n{done.stderr[-4000:]}")

    return runs.built("odd-rows", recipe, build)


def jobs(env: str) -> Iterator[Job]:
    """Of one framework."""
    table = {"swift": SWIFT, "trl": TRL, "llamafactory": LLAMAFACTORY}
    yield from (each() for each in table.get(env, ()))


Made = Callable[[], Job]


def _swift(name: str, data: str, tuning: Sequence[str], how: Sequence[str] = (),
           model: str = "qwen2_vl", verb: Sequence[str] = SFT, style: str = "line",
           reference: Sequence[str] = (), **extra: str) -> Made:  # fmt: skip
    """data: of odd_rows, or "kit:" and one of the kit's."""

    def make() -> Job:
        own = data.removeprefix("kit:")
        file = (swift.dataset() if own != data else rows()) / f"{own}.jsonl"
        flags = [*tuning, "--dataset", str(file)]
        flags = [flag.replace("{rows}", str(rows())) for flag in flags]
        same = SAME if "lora" in tuning else {}
        run = Run(f"odd-{name}", list(verb), model, own, [*flags, *how], "", "",
                  [*flags, *reference, *PLAIN], extra={**same, **extra})  # fmt: skip
        words = [flag.replace("{data}", str(swift.dataset())) for flag in run.flags]
        words = swift.command(verb, model, "image", words)
        env = {"NPROC_PER_NODE": "2", "MAX_PIXELS": "16384", **extra}
        line = functools.partial(written.STYLES[style], run.name, words, env)
        forced = None
        if other := UNLIKE.get(own):
            there = str(rows() / f"{other}.jsonl")
            changed = {each: [there if word == str(file) else word for word in getattr(run, each)]
                       for each in ("flags", "reference")}  # fmt: skip
            forced = real.of_run(replace(run, **changed))
        return Job(run.name, "swift", line, real=real.of_run(run), passes=BOTH, forced=forced)

    return make


def _trainer(name: str, data: str, make_command: Callable[..., kit.Command],
             how: Any, right: Any, wrapped: str, typed: Any = None,
             forced: str = "") -> Made:  # fmt: skip
    """make_command: (rows, what the command has or its reference in place of that) → command.
    typed: the same, as it is typed, where that is another launcher's way to say it.
    forced: rows on which ranks differ, where a batch holds several and `UNLIKE` has them alike."""

    def make() -> Job:
        one, other = make_command(data, how), make_command(data, right)
        shown = typed(data) if typed else one
        line: Callable[[], Line] = functools.partial(
            known.of_command, shown.env, f"odd-{name}", shown, 2
        )
        differs = None
        if rows_ := forced or UNLIKE.get(data):
            differs = of_command(make_command(rows_, how), make_command(rows_, right), wrapped)
        ranks = of_command(one, other, wrapped)
        return Job(f"odd-{name}", one.env, line, real=ranks, passes=BOTH, forced=differs)

    return make


def of_command(command: kit.Command, reference: kit.Command, wrapped: str,
               ranks: int = 2, extra: Mapping[str, str] | None = None) -> real.Real:  # fmt: skip
    """Real ranks of a command of TRL or LLaMA-Factory."""

    def start(guard: bool, right: bool, detail: bool, quiet: float | None) -> runs.Outcome:
        more = dict(extra or {})
        more |= {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if detail else {}
        more |= {"VLMGUARD_TEST_QUIET": str(quiet)} if quiet else {}  # so that it is run again
        told = {} if quiet is None else {"quiet": quiet}
        return kit.run(reference if right else command, guard=guard, ranks=ranks, timeout=300,
                       extra=more, cold=False, **told)  # fmt: skip

    return real.Real(start, wrapped, ranks, "zero" in wrapped)


def of_known(job: Job) -> real.Real | None:
    """Real ranks of a command that a test of tests/frameworks/trainers names as broken."""
    case = CASES.get(job.name) if job.env in ("trl", "llamafactory") else None
    if case is None:
        return None
    told = " ".join([*case.command.words, *case.command.files.values()])
    stage = re.search(r"zero\d(?=\.json)", told)
    wrapped = stage[0] if stage else "distributeddataparallel"
    return of_command(case.command, case.reference, wrapped, case.ranks, case.environment)


def _trl(name: str, data: str, *flags: str, how: Sequence[str] = (), verb: str = "sft",
         model: str = "qwen2_vl", wrapped: str = "distributeddataparallel",
         forced: str = "") -> Made:  # fmt: skip
    def command(of: str, more: Sequence[str]) -> kit.Command:
        at = ["--dataset_name", str(rows() / "trl" / of)]
        return kit.trl(verb, of, *at, *flags, *more, model=model)

    return _trainer(name, data, command, how, [*NONE, *UNUSED], wrapped, forced=forced)


def _accelerated(name: str, data: str, stage: int, model: str = "qwen2_vl") -> Made:
    """DeepSpeed's config in a config of accelerate's; real ranks get the same by a flag."""

    def command(of: str, more: Sequence[str]) -> kit.Command:
        at = ["--dataset_name", str(rows() / "trl" / of)]
        return kit.trl("sft", of, *at, *more, model=model)

    def typed(of: str) -> kit.Command:
        told = command(of, ())
        flags = told.words[told.words.index("{port}") + 1 :]
        inner = {"deepspeed_config_file": f"{{data}}/zero{stage}.json",
                 "zero3_init_flag": stage == 3}  # fmt: skip
        config = {**written.ACCELERATE, "distributed_type": "DEEPSPEED", "deepspeed_config": inner}
        words = ["accelerate", "launch", "--config_file", "accelerate.yaml", "-m",
                 "trl.scripts.sft", *flags]  # fmt: skip
        return replace(told, words=words, files={"accelerate.yaml": json.dumps(config)})

    return _trainer(name, data, command, kit.zero(stage), [*NONE, *UNUSED], f"zero{stage}", typed)


def _lf(name: str, data: str, *, tuning: str = "lora", model: str = "qwen2_vl",
        how: Mapping[str, Any] | None = None, wrapped: str = "distributeddataparallel",
        right: Mapping[str, Any] | None = None, forced: str = "",
        **keys: Any) -> Made:  # fmt: skip
    """how: what its reference has not; right: what that has in place of it."""

    def command(of: str, more: Mapping[str, Any]) -> kit.Command:
        place = {"dataset_dir": str(rows() / "llamafactory")}
        return kit.llamafactory(of, model=model, tuning=tuning, **{**place, **keys, **more})

    plain = {**UNCHECKED, "ddp_find_unused_parameters": True, **(right or {})}
    return _trainer(name, data, command, how or {}, plain, wrapped, forced=forced)


LF_ZERO = {stage: {"deepspeed": f"{{data}}/zero{stage}.json"} for stage in (1, 2, 3)}
SWIFT: list[Made] = [
    # rows that ms-swift drops before it trains: what comes after moves up
    _swift("swift-invalid-batches", "invalid", [*LORA, *BATCHES], style="script"),
    _swift("swift-invalid-text-zero2", "invalid_text", [*FULL, *BATCHES], zero(2), "qwen3",
           style="yaml"),
    _swift("swift-long-text", "long_text", [*FULL, "--max_length", "200", *BATCHES], zero(3),
           "qwen3", style="script"),
    # rows in whose place it takes others at random
    _swift("swift-long-zero3", "long", [*FULL, *VISION, "--max_length", "256"], zero(3),
           style="script"),
    _swift("swift-broken", "kit:broken", LORA),
    # more placeholders than the length allows, though not of pictures as small as ours
    _swift("swift-large-cut", "large", [*LORA, "--max_length", "90"], MAX_PIXELS="1003520",
           style="script"),
    _swift("swift-large-left", "large",
           [*LORA, "--max_length", "60", "--truncation_strategy", "left"], zero(2),
           MAX_PIXELS="1003520"),
    # layers that a small copy has not
    _swift("swift-deep-regex", "alike",
           [*LORA, "--target_regex", r".*language_model\.layers\.5\..*(q_proj|v_proj)"], zero(2),
           "qwen2_5_vl_deep", style="yaml"),
    _swift("swift-deep-ratio", "unlike", [*FULL, "--freeze_parameters_ratio", "0.6"], (),
           "qwen2_5_vl_deep", style="script"),
    _swift("swift-deep-named", "alike",
           [*FULL, "--freeze_parameters_ratio", "1", "--trainable_parameters",
            "model.language_model.layers.4", "model.language_model.norm"], zero(3),
           "qwen2_5_vl_deep", style="script"),
    _swift("swift-own-tokens", "long_text", [*LORA, *OWN_TOKENS], (), "qwen3"),
    _swift("swift-own-tokens-zero3", "unlike", [*FULL, *TRAINED, *OWN_TOKENS], zero(3),
           "qwen2_5_vl"),
    # what trains
    _swift("swift-aligner-alone", "unlike", ALIGNER_ALONE, (), "llava"),
    _swift("swift-aligner-alone-zero3", "phases", ALIGNER_ALONE, zero(3), "llava",
           style="accelerate"),
    _swift("swift-aligner-alone-onevision", "unlike", ALIGNER_ALONE, zero(2), "llava_onevision",
           style="deepspeed"),
    _swift("swift-tower-adapters", "unlike", TOWER_ADAPTERS, zero(3), "qwen2_5_vl",
           style="script"),
    _swift("swift-tower-adapters-gemma3", "phases", TOWER_ADAPTERS, zero(2), "gemma3"),
    _swift("swift-dora-zero3", "unlike", [*LORA, *VISION, "--use_dora", "true"], zero(3),
           "qwen2_5_vl"),
    _swift("swift-dora", "alike", [*LORA, "--use_dora", "true", "--use_rslora", "true", *THREE]),
    _swift("swift-adalora-zero3", "alike", ["--tuner_type", "adalora"], zero(3)),
    _swift("swift-vera-zero2", "alike", ["--tuner_type", "vera"], zero(2)),
    _swift("swift-saved-zero3", "alike",
           [*LORA, "--modules_to_save", "embed_tokens", "lm_head"], zero(3), "qwen2_5_vl"),
    _swift("swift-saved", "unlike", [*LORA, "--modules_to_save", "embed_tokens"], (), "llava"),
    # how often
    _swift("swift-few-epochs", "few", [*LORA, "--max_steps", "-1", "--num_train_epochs", "3"],
           style="script"),
    _swift("swift-one-row", "one", [*LORA, "--max_steps", "-1", "--num_train_epochs", "3"]),
    _swift("swift-three-round-robin", "kinds", [*FULL, *VISION, *THREE],
           ["--deepspeed", ROUND_ROBIN], "gemma3"),
    _swift("swift-streaming", "unlike", [*TRAINED, "--streaming", "true"], zero(3), "idefics3",
           style="script"),
    _swift("swift-lengths", "unlike",
           [*TRAINED, "--lazy_tokenize", "false", "--group_by_length", "true",
            "--train_dataloader_shuffle", "true"], zero(2), "qwen2_5_vl"),
    _swift("swift-lisa", "alike",
           [*FULL, "--lisa_activated_layers", "1", "--lisa_step_interval", "1", "--max_steps",
            "4"]),
    _swift("swift-rates", "unlike",
           [*TRAINED, "--vit_lr", "0.05", "--aligner_lr", "0.02"], zero(2), "qwen2_5_vl"),
    # kinds of rows
    _swift("swift-video", "video", [*TRAINED, *VIDEO], zero(3)),
    _swift("swift-empty", "empty", LORA, ["--deepspeed", "zero1"]),
    _swift("swift-turns", "turns", [*LORA, "--loss_scale", "last_round"], (), "mllama"),
    _swift("swift-kinds-batches", "kinds", [*FULL, *VISION, *BATCHES], zero(3), "qwen2_5_vl",
           style="accelerate"),
    _swift("swift-orpo-zero3", "dpo_phases", TRAINED, zero(3), "llava", ORPO, style="script"),
    _swift("swift-simpo", "dpo_unlike", TRAINED, (), "qwen3_vl", SIMPO),
    _swift("swift-dpo-sft", "dpo_kinds", [*LORA, *VISION, "--rpo_alpha", "0.5"], zero(3),
           "qwen2_5_vl", DPO),
    _swift("swift-evaluates", "alike", [*TRAINED, *evaluated("mixed")], (), "llava"),
]  # fmt: skip
TRL: list[Made] = [
    _accelerated("trl-accelerate-phases", "phases", 3),
    _accelerated("trl-accelerate-unlike", "unlike", 2, "qwen2_5_vl"),
    _trl("trl-large-cut", "large", *PEFT, "--max_length", "90"),
    _trl("trl-evaluates-unlike", "alike_unlike", "--eval_strategy", "steps", "--eval_steps", "1",
         "--per_device_eval_batch_size", "1", how=kit.zero(3), wrapped="zero3"),
    _trl("trl-own-tokens", "unlike", *PEFT, *OWN_TOKENS),
    _trl("trl-batches-three", "kinds", *BATCHES, *THREE, how=kit.zero(3), wrapped="zero3",
         model="qwen2_5_vl", forced="phases"),
    _trl("trl-few-dropped", "few", *PEFT, *BATCHES, "--max_steps", "-1", "--num_train_epochs",
         "2", "--dataloader_drop_last", "true"),
    _trl("trl-few-epochs", "few", *PEFT, "--max_steps", "-1", "--num_train_epochs", "2"),
    _trl("trl-dora-zero3", "unlike", *PEFT, "--use_dora", "true", how=kit.zero(3),
         wrapped="zero3"),
    _trl("trl-dpo-sft", "dpo_kinds", "--loss_type", "sigmoid", "sft", "--loss_weights", "1.0",
         "0.5", how=kit.zero(2), wrapped="zero2", verb="dpo"),
    _trl("trl-dpo-before", "dpo_unlike", *PEFT, "--precompute_ref_log_probs", "true",
         how=kit.zero(3), wrapped="zero3", verb="dpo"),
    _trl("trl-reward", "dpo_unlike", how=kit.zero(3), wrapped="zero3", verb="reward",
         model="gemma3"),
    _trl("trl-text", "words", how=kit.zero(3), wrapped="zero3", model="llava"),
    _trl("trl-turns", "turns", *PEFT, "--use_rslora", "true", "--gradient_checkpointing_kwargs",
         '{"use_reentrant": true}', model="qwen2_5_vl"),
]  # fmt: skip
LLAMAFACTORY: list[Made] = [
    _lf("lf-evaluates-unlike", "alike", tuning="full", eval_dataset="unlike",
        eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=1, how=LF_ZERO[3],
        wrapped="zero3", **TOWER),
    _lf("lf-invalid-batches", "invalid", per_device_train_batch_size=2),
    _lf("lf-large-cut", "large", cutoff_len=90, image_max_pixels=1003520),
    _lf("lf-own-tokens", "unlike", average_tokens_across_devices=False),
    _lf("lf-deep-freeze", "alike", tuning="freeze", freeze_trainable_layers=2,
        model="qwen2_5_vl_deep", how=LF_ZERO[2], wrapped="zero2"),
    _lf("lf-deep-extra", "alike", tuning="freeze", freeze_trainable_layers=3,
        freeze_extra_modules="embed_tokens", model="qwen2_5_vl_deep"),
    _lf("lf-tower-alone", "unlike", tuning="full", freeze_language_model=True,
        how=LF_ZERO[3], wrapped="zero3", **TOWER),
    _lf("lf-dora-zero3", "unlike", use_dora=True, use_rslora=True, how=LF_ZERO[3],
        wrapped="zero3", **TOWER),
    _lf("lf-saved", "alike", additional_target="embed_tokens,lm_head", how=LF_ZERO[2],
        wrapped="zero2"),
    _lf("lf-orpo-zero3", "dpo_phases", stage="dpo", pref_loss="orpo", tuning="full",
        how=LF_ZERO[3], wrapped="zero3", **TOWER),
    _lf("lf-simpo", "dpo_kinds", stage="dpo", pref_loss="simpo", per_device_train_batch_size=2,
        forced="dpo_phases"),
    _lf("lf-rm-zero3", "dpo_unlike", stage="rm", how=LF_ZERO[3], wrapped="zero3"),
    _lf("lf-kto", "kto_unlike", stage="kto", per_device_train_batch_size=2),
    _lf("lf-empty-three", "empty", gradient_accumulation_steps=3, how=LF_ZERO[1],
        wrapped="zero1"),
    _lf("lf-text-smooth", "words", model="qwen3", tuning="full", label_smoothing_factor=0.1,
        group_by_length=True, how=LF_ZERO[3], wrapped="zero3"),
    _lf("lf-few", "few", max_steps=-1, num_train_epochs=3, gradient_accumulation_steps=3),
]  # fmt: skip
