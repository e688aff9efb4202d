"""What is changed of an ms-swift command; ms-swift itself is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmguard.check.fields import Values
from vlmguard.check.files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.request import Request
from vlmguard_swift import rehearse
from vlmguard_transformers import rehearse_flags

ZERO = {"stage": 2, "allgather_bucket_size": 2e8, "reduce_bucket_size": 5e8,
        "offload_optimizer": {"device": "cpu"}, "overlap_comm": True}  # fmt: skip


def shrunk(tmp_path, ratio):
    argv = Argv([])
    config = {"zero_optimization": ZERO, "fp16": {"enabled": "auto"}}
    file = rehearse_flags.written(config, tmp_path, ratio, argv)
    return json.loads(file.read_text()), argv.notes


@pytest.mark.parametrize("ratio", [829, 830, 831, 837])
def test_buckets_shrink_with_the_model_to_sizes_that_zero_accepts(tmp_path, ratio):
    config, notes = shrunk(tmp_path, ratio)
    zero = config["zero_optimization"]
    for name in ("allgather_bucket_size", "reduce_bucket_size"):
        assert 1000 <= zero[name] <= ZERO[name] / ratio
        assert zero[name] % 2 == 0, "DeepSpeed 0.19 asserts it of ZeRO-2's all-gather"
    assert (zero["stage"], zero["overlap_comm"]) == (2, True)
    assert "offload_optimizer" not in zero
    assert notes == ["offload_optimizer: nothing is moved"]


def test_a_model_that_is_small_keeps_its_buckets(tmp_path):
    config, _ = shrunk(tmp_path, 1.0)
    assert config["zero_optimization"]["allgather_bucket_size"] == 2e8
    assert config["gradient_clipping"] == 0
    assert config["fp16"] == config["bf16"] == {"enabled": False}


def test_its_own_numbers_keep_optimizer_dtype_and_batch_sizes(tmp_path):
    here = str(tmp_path)
    (tmp_path / "config.json").write_text('{"text_config": {"dtype": "bfloat16"}}')
    config = {"zero_optimization": {**ZERO, "offload_param": {"device": "cpu"}},
              "optimizer": {"type": "AdamW"}, "train_batch_size": 64, "gradient_clipping": 1.0,
              "bf16": {"enabled": True}}  # fmt: skip
    words = ("--deepspeed", json.dumps(config), "--optim", "adafactor", "--max_grad_norm", "0.5")
    request = Request("vlmguard_swift", "sft", words, here, "zero2", 64, here, "m", here,
                      accumulation=16)  # fmt: skip
    made = {"folder": here, "weights": 1, "full": 1000}
    argv = Argv(list(rehearse.own(request, made, tmp_path / "rows.jsonl", 1).argv))
    told = {name: argv.get(name) for name in ("optim", "max_grad_norm", "torch_dtype", "max_steps",
                                              "gradient_accumulation_steps")}  # fmt: skip
    assert told == {"optim": "adafactor", "max_grad_norm": "0.5", "torch_dtype": "bfloat16",
                    "max_steps": "1", "gradient_accumulation_steps": "16"}  # fmt: skip
    kept = json.loads(Path(argv.get("deepspeed")).read_text())
    assert kept["optimizer"] == {"type": "AdamW", "params": {"torch_adam": True}}
    assert (kept["train_batch_size"], kept["gradient_clipping"]) == (64, 1.0)
    assert kept["bf16"] == {"enabled": True}
    assert "offload_param" not in kept["zero_optimization"]


@pytest.mark.parametrize(
    ("given", "evaluates"),
    [
        ({}, False),
        ({"val_dataset": ["a.jsonl"]}, True),
        ({"split_dataset_ratio": 0.01}, True),
        ({"val_dataset": ["a.jsonl"], "eval_strategy": "no"}, False),
        ({"val_dataset": ["a.jsonl"], "save_strategy": "no"}, False),
        ({"val_dataset": ["a.jsonl"], "predict_with_generate": True}, False),
    ],
)
def test_whether_it_evaluates_while_it_trains(given, evaluates, tmp_path):
    values = Values(dict.fromkeys(given), dict(given))
    assert rehearse.describe(values, "sft", Files(str(tmp_path))).evaluates is evaluates


def test_it_evaluates_once_on_the_rows_that_it_is_given(tmp_path):
    here = str(tmp_path)
    request = Request("vlmguard_swift", "sft", ("--eval_steps", "500"), here, "ddp", 2, here, "m",
                      here, evaluates=True, evaluated=("rows-evaluated.jsonl",))  # fmt: skip
    made = {"folder": here, "weights": 1, "full": 1}
    for single in (False, True):
        told = rehearse.commands(request, made, tmp_path / "a", tmp_path / "b", 4)
        argv = Argv(list(told.reference if single else told.argv))
        assert argv.get("val_dataset") == "rows-evaluated.jsonl"
        assert (argv.get("eval_strategy"), argv.get("eval_steps")) == ("steps", "4")


@pytest.mark.parametrize(
    ("batch", "given", "size"), [(1, (), "2"), (4, ("--num_generations", "8"), "8"), (3, (), "2")]
)
def test_groups_of_completions_are_ones_that_two_ranks_can_share_out(tmp_path, batch, given, size):
    argv = Argv([*given, "--generation_batch_size", "64"])
    request = Request("vlmguard_swift", "rlhf", (), "/", "ddp", 8, "", "m", "/", batch=batch,
                      accumulation=1)  # fmt: skip
    rehearse._groups(argv, request)
    assert (argv.get("num_generations") or "8") == size
    assert argv.get("generation_batch_size") is None
