"""What real releases refuse or take, and what is said of a command beside its findings."""

from __future__ import annotations

import json
import time

import pytest

from tests.frameworks.check.test_check_swift import ask
from tests.kit import envs

pytestmark = pytest.mark.frameworks

BASE = "model_name_or_path: Qwen/Qwen2-VL-7B-Instruct\nstage: sft\ndo_train: true\n"
BOMB = "\n".join(
    ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    + [f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]" for n in range(8)]
)
FILES = {
    "good.yaml": BASE + "max_steps: 10\n", "short.yaml": BASE + "max_step: 10\n",
    "letter.yaml": BASE + "a: 1\n", "anchor.yaml": BASE + "b: &b {x: 1}\nlr_scheduler_kwargs: *b\n",
    "bomb.yaml": BOMB, "deep.yaml": "[" * 100_000, "itself.yaml": "a: &a [*a]\n",
    "long.yaml": "\n".join(f"k{n}: {n}" for n in range(60_000)),
    "trl.yaml": "model_name_or_path: x/y\nnum_processes: 2\nmax_step: 1\n",
    "trl-good.yaml": "model_name_or_path: x/y\nnum_processes: 2\nmax_steps: 1\n",
}  # fmt: skip
LF = ["llamafactory-cli", "train"]
TRAIN = ["torchrun", "--nproc_per_node", "2", "-m",
         "FlagEmbedding.finetune.embedder.encoder_only.base",
         "--model_name_or_path", "BAAI/bge-m3", "--output_dir", "o"]  # fmt: skip
SAID = {
    "llamafactory": [
        ([*LF, "good.yaml"], 0, "judged", ""), ([*LF, "short.yaml"], 1, "wrong", "'max_step'"),
        ([*LF, "good.yaml", "max_step=3"], 1, "wrong", "'max_step'"),
        ([*LF, "letter.yaml"], 1, "wrong", "'a'"), ([*LF, "anchor.yaml"], 1, "wrong", "'b'"),
        (["ALLOW_EXTRA_ARGS=1", *LF, "anchor.yaml"], 0, "judged", ""),
        ([*LF, "bomb.yaml"], 2, "cannot tell", "more than"),
        ([*LF, "deep.yaml"], 2, "cannot tell", "nested"),
        ([*LF, "itself.yaml"], 2, "cannot tell", "nested"),
        ([*LF, "long.yaml"], 1, "wrong", "'k0'"),
    ],
    "trl": [
        (["trl", "sft", "--config", "trl.yaml"], 1, "wrong", "'max_step'"),
        (["trl", "sft", "--config", "trl-good.yaml"], 0, "judged", ""),
    ],
    "flagembedding": [
        ([*TRAIN, "--train_data", "a", "b"], 0, "judged", ""),
        ([*TRAIN, "--train_data", "a", "--kd_loss_type", "odd"], 1, "wrong", "odd"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("env", SAID)
def test_configs_by_their_keys_and_fields_by_their_metadata(env, tmp_path):
    if env not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    begun = time.monotonic()
    answers = ask(env, [words for words, *_ in SAID[env]], tmp_path)["answers"]
    assert time.monotonic() - begun < 60
    for (words, code, state, told), answer in zip(SAID[env], answers, strict=True):
        (job,) = answer["jobs"]
        assert (job["state"], told in job["reason"]) == (state, True), (words, job["reason"])
        assert answer["exit"] == code, (words, job["findings"])


def test_the_file_that_accelerate_config_leaves(tmp_path):
    """Where no ``--config_file`` is given, ``accelerate launch`` reads it."""
    if "trl" not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    left = tmp_path / ".cache" / "huggingface" / "accelerate"
    left.mkdir(parents=True)
    (left / "default_config.yaml").write_text("distributed_type: FSDP\nnum_processes: 4\n")
    words = ["trl", "sft", "--model_name_or_path", "x/y"]
    (job,) = ask("trl", [words], tmp_path)["answers"][0]["jobs"]
    assert (job["strategy"], job["world"]) == ("fsdp", 4)


def test_what_is_switched_off_is_said(tmp_path):
    """And what is not here is not looked at: no exit 0."""
    if "swift" not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    (tmp_path / "m").mkdir()
    config = {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"],
              "vision_config": {}}  # fmt: skip
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    rows = [{"messages": [{"role": "user", "content": "a"}], "images": i} for i in ([], ["a"])]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["NPROC_PER_NODE=2", "swift", "sft", "--model", "m", "--model_type", "qwen2_vl",
             "--dataset", "d.jsonl", "--tuner_type", "full", "--freeze_vit", "false",
             "--freeze_aligner", "false", "--ddp_find_unused_parameters", "false"]  # fmt: skip
    absent = [word if word != "m" else "/no/such/folder" for word in words]
    plain, off, rule, away = ask(
        "swift", [words, ["VLMGUARD=off", *words], ["VLMGUARD_RULES=VG106=off", *words],
                  [*absent[:7], "--dataset", "AI/data"]], tmp_path,
    )["answers"]  # fmt: skip
    told = {f["code"]: f["outcome"] for f in plain["jobs"][0]["findings"]}
    assert (told["VG106"], plain["jobs"][0]["switched_off"]) == ("fixed", [])
    told = {f["code"]: f["outcome"] for f in off["jobs"][0]["findings"]}
    assert (told["VG106"], off["exit"]) == ("", plain["exit"])
    assert "not guard the run" in off["jobs"][0]["switched_off"][0]
    assert off["jobs"][0]["guarded"] == []
    assert "VG106 is switched off" in rule["jobs"][0]["switched_off"][0]
    assert "no such folder" in away["jobs"][0]["not_looked_at"][0]
    assert away["exit"] == 2


SCRIPT = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
from dataclasses import dataclass
@dataclass
class Model:
    model_name_or_path: str = "x"
HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
"""
MOE = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
       "router_aux_loss_coef": 0.001, "output_router_logits": True}  # fmt: skip
MODELS = {
    "moe": MOE, "plain-moe": {**MOE, "output_router_logits": False},
    "vl": {"model_type": "qwen2_5_vl", "vision_config": {},
           "architectures": ["Qwen2_5_VLForConditionalGeneration"]},
    "text": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
}  # fmt: skip


def _sft(model: str, reentrant: str) -> list[str]:
    return ["trl", "sft", "--model_name_or_path", model, "--num_processes", "2",
            "--gradient_checkpointing", "--gradient_checkpointing_kwargs",
            f'{{"use_reentrant": {reentrant}}}']  # fmt: skip


def _smooth(model: str, factor: str) -> list[str]:
    return ["torchrun", "--nproc_per_node", "2", "t.py", "--model_name_or_path", model,
            "--label_smoothing_factor", factor]  # fmt: skip


SWIFT = ["NPROC_PER_NODE=2", "swift", "sft", "--model", "Qwen/Qwen2.5-VL-7B-Instruct", "--dataset",
         "a/b", "--gradient_accumulation_steps", "4", "--label_smoothing_factor"]  # fmt: skip
LOSSES = {
    "trl": [
        (_sft("moe", "true"), "VG116", True), (_sft("moe", "false"), "VG116", False),
        (_sft("plain-moe", "true"), "VG116", False), (_sft("text", "true"), "VG116", False),
        (_smooth("vl", "0.1"), "VG620", True), (_smooth("vl", "0"), "VG620", False),
        (_smooth("text", "0.1"), "VG620", False),
    ],
    "swift": [([*SWIFT, "0.1"], "VG622", True), ([*SWIFT, "0"], "VG622", False)],
}  # fmt: skip


@pytest.mark.parametrize("env", LOSSES)
def test_losses_that_become_another(env, tmp_path):
    """What the run says of them, before it starts."""
    if env not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    (tmp_path / "t.py").write_text(SCRIPT)
    for name, config in MODELS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    answers = ask(env, [words for words, *_ in LOSSES[env]], tmp_path)["answers"]
    for (words, code, told), answer in zip(LOSSES[env], answers, strict=True):
        (job,) = answer["jobs"]
        assert job["state"] == "judged", (words, job["reason"])
        assert (code in {f["code"] for f in job["findings"]}) == told, (words, job["findings"])
