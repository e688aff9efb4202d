"""The stations "rows" and "targets" on real classes: nothing is said of healthy ones, and not a bit
is changed."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.kit import envs, runs

pytestmark = pytest.mark.frameworks
VISION = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "internvl", "llava", "llava_next",
          "llava_onevision", "gemma3", "paligemma", "idefics3", "mllama", "glm4v", "minicpmv4_6",
          "mistral3", "qwen2_audio")  # fmt: skip
PRECISE = ("tied", "softcap", "logits_scaling", "logit_scale", "bias", "LoRA on the head",
           "DoRA on the head", "a trained copy", "own loss")  # fmt: skip
SHORT = ("bfloat16", "autocast")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Variant → what it came to."""
    variables = runs.variables("trl", tmp_path_factory.mktemp("heads"), guard=False)
    command = [envs.program("trl"), "-m", "tests.ledger.real_heads"]
    done = subprocess.run(command, env=variables, cwd=envs.ROOT, capture_output=True, text=True,
                          timeout=400, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {each["name"]: each for each in lines}


@pytest.mark.parametrize("name", [*VISION, *PRECISE, *SHORT])
def test_healthy_models_balance(found, name):
    told = found[name]
    assert told["same"]
    assert told["states"] == [["balances", ""]] * 4
    assert [entry for entry in told["entries"] if entry[1] == "warning"] == []
    assert told["sums"] == [pytest.approx(1, abs=1e-2 if name in SHORT else 1e-4)] * 2
    assert told["residual"] < (2e-2 if name in SHORT else 1e-4)


@pytest.mark.parametrize("name", ["wrong: not shifted", "wrong: shifted twice"])
def test_wrong_targets_are_told(found, name):
    assert found[name]["same"]
    assert found[name]["entries"] == [["VG620", "warning"]] * 2


def test_a_class_that_ignores_num_items_in_batch_is_told(found):
    """Qwen2-Audio: with two micro-batches its loss is twice too large."""
    told = found["wrong: a careless class"]
    assert told["sums"] == [pytest.approx(2)] * 2
    assert told["entries"] == [["VG622", "note"], ["VG622", "warning"]]
