"""What is changed of an ms-swift command; ms-swift itself is not needed."""

from __future__ import annotations

import json

import pytest

from vlmguard.rehearse.argv import Argv
from vlmguard_swift import rehearse
from vlmguard_transformers import rehearse_flags

ZERO = {"stage": 2, "allgather_bucket_size": 2e8, "reduce_bucket_size": 5e8,
        "offload_optimizer": {"device": "cpu"}, "overlap_comm": True}  # fmt: skip


def shrunk(tmp_path, ratio):
    here = str(tmp_path)
    argv = Argv([])
    given = json.dumps({"zero_optimization": ZERO, "fp16": {"enabled": "auto"}})
    file = rehearse_flags.written(rehearse._config(given, here), tmp_path, ratio, argv)
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
