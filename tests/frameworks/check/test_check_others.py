"""Commands whose real runs were measured to be broken, or healthy: `check` says so beforehand.

Measured in two gloo ranks: crashes, hangs and silently wrong updates by the default flags of these
releases. The codes are those of the defects.
"""

from __future__ import annotations

import json

import pytest

from tests.frameworks.check.test_check_swift import ask
from tests.kit import envs

pytestmark = pytest.mark.frameworks

TEXT = {"messages": [{"role": "user", "content": "a"}], "images": []}
IMAGE = {**TEXT, "images": ["a.png"]}
BOTH = {**IMAGE, "videos": ["b.mp4"]}
ROWS = {"mixed": [IMAGE, TEXT], "image": [IMAGE], "both": [BOTH], "text": [TEXT]}
LF = ["FORCE_TORCHRUN=1", "NPROC_PER_NODE=2", "llamafactory-cli", "train", "lf.yaml"]
TRL = ["trl", "sft", "--model_name_or_path", "vl", "--num_processes", "2", "--dataset_name"]
FLAG = ["torchrun", "--nproc_per_node", "2", "-m", "FlagEmbedding.finetune.{}.decoder_only.base",
        "--model_name_or_path", "m", "--train_data", "text.jsonl", "--output_dir", "o",
        "--gradient_checkpointing"]  # fmt: skip
REENTRANT = ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
YAML = """
model_name_or_path: vl
stage: sft
do_train: true
finetuning_type: lora
freeze_vision_tower: false
dataset: both
dataset_dir: .
output_dir: o
template: qwen2_vl
"""


def flag(kind: str, *words: str) -> list[str]:
    return [word.format(kind) for word in FLAG] + list(words)


CASES = {
    "llamafactory": [
        (LF, {"VG101", "VG107"}),
        ([*LF, "deepspeed=z3.json"], {"VG102"}),
        ([*LF, "finetuning_type=full", "deepspeed=z2.json"], {"VG102"}),
        ([*LF, "finetuning_type=full", "deepspeed=z3.json", "dataset=mixed",
          "use_reentrant_gc=false"], set()),
    ],
    "trl": [
        ([*TRL, "mixed.jsonl", "--deepspeed", "z3.json"], {"VG106", "VG108"}),
        ([*TRL, "mixed.jsonl", "--accelerate_config", "zero2"], {"VG106"}),
        ([*TRL, "image.jsonl", "--accelerate_config", "multi_gpu", "--use_peft", *REENTRANT],
         {"VG101"}),
        ([*TRL, "mixed.jsonl", "--accelerate_config", "multi_gpu"], set()),
        ([*TRL, "image.jsonl", "--accelerate_config", "multi_gpu", "--use_peft"], set()),
    ],
    "flagembedding": [
        (flag("reranker", "--use_lora", "True"), {"VG101"}),
        (flag("embedder", "--use_lora", "True", "--ddp_find_unused_parameters", "False"),
         {"VG107"}),
        (flag("embedder", "--deepspeed", "z2.json"), {"VG103"}),
        (flag("reranker", "--gradient_checkpointing_kwargs", '{"use_reentrant": false}'), set()),
    ],
}  # fmt: skip


@pytest.mark.parametrize("env", CASES)
def test_measured_defects_are_said_before(env, tmp_path):
    if env not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    (tmp_path / "vl").mkdir()
    config = {"model_type": "qwen2_vl", "vision_config": {}}
    (tmp_path / "vl" / "config.json").write_text(json.dumps(config))
    for name, rows in ROWS.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    info = {name: {"file_name": f"{name}.jsonl"} for name in ROWS}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    for stage in (2, 3):
        zero = {"zero_optimization": {"stage": stage}, "gradient_clipping": "auto"}
        (tmp_path / f"z{stage}.json").write_text(json.dumps(zero))
    (tmp_path / "lf.yaml").write_text(YAML)

    answers = ask(env, [words for words, _ in CASES[env]], tmp_path)["answers"]
    for (words, codes), answer in zip(CASES[env], answers, strict=True):
        (job,) = answer["jobs"]
        assert job["state"] == "judged", (words, job["reason"])
        errors = {f["code"] for f in job["findings"] if f["level"] == "error"}
        assert codes <= errors, (words, job["findings"])
        assert answer["exit"] == int(bool(codes)), (words, job["findings"])
