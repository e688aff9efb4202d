"""Real classes of transformers, from configs of full size: what is observed of them is what is
known of them from runs and from reading their forwards."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs, runs
from tests.kit.full_configs import CONFIGS
from tests.kit.turns import turn
from vlmguard.ranks import ports
from vlmguard_torch.observe import observed

pytestmark = pytest.mark.frameworks

NO_VIDEO_BESIDE_IMAGE = {"Glm4vForConditionalGeneration"}
"""Its forward takes a frame's placeholders for an image's, and refuses both in one sample."""
CALLED_TWICE = {
    "Qwen2VLForConditionalGeneration": "model.visual",
    "Qwen2_5_VLForConditionalGeneration": "model.visual",
    "Qwen3VLForConditionalGeneration": "model.visual",
    "Qwen3_5ForConditionalGeneration": "model.visual",
    "LlavaOnevisionForConditionalGeneration": "model.vision_tower",
    "MiniCPMV4_6ForConditionalGeneration": "model.vision_tower",
    "Qwen2_5OmniThinkerForConditionalGeneration": "visual",
}
CLIP_BEHIND = ("model.vision_tower.encoder.layers.23", "model.vision_tower.post_layernorm")
NEVER_USED = {
    "LlavaForConditionalGeneration": CLIP_BEHIND,
    "LlavaNextForConditionalGeneration": CLIP_BEHIND,
    "LlavaOnevisionForConditionalGeneration": ("model.vision_tower.post_layernorm",),
    "AyaVisionForConditionalGeneration": ("model.vision_tower.post_layernorm",),
}
CROSSING = tuple(f"model.language_model.layers.{n}" for n in (3, 8, 13, 18, 23, 28, 33, 38))


@pytest.fixture(scope="module")
def found():
    """One process imports everything once; half a minute of work."""
    return json.loads(runs.told("observed", observe))


def observe() -> str:
    kit = Path(envs.__file__).parent
    port = ports.free()
    paths = [str(kit / "standins"), str(envs.ROOT), str(envs.ROOT / "plugins")]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "VLMGUARD": "off",
        "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    environment.pop("VLMGUARD_OBSERVE", None)
    worker = str(Path(__file__).with_name("worker.py"))
    with turn():
        done = subprocess.run(
            [envs.program("swift"), worker],
            env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    return lines[-1].removeprefix("FOUND ")


def facts_of(data):
    fields = observed.Observed.__dataclass_fields__
    return observed.from_data({key: value for key, value in data.items() if key in fields})


@pytest.mark.parametrize("name", CONFIGS)
def test_every_kind_of_row_that_the_class_takes_is_observed(found, name):
    facts = facts_of(found[name])
    assert facts, facts.reason
    refused = {kind.kind: kind.reason for kind in facts.kinds if not kind.ran}
    assert set(refused) <= ({"image+video"} if name in NO_VIDEO_BESIDE_IMAGE else set()), refused
    assert facts.unsure == ()
    assert facts.never_used == NEVER_USED.get(name, ())
    assert facts.skipped == (CROSSING if "Mllama" in name else ())
    assert found[name]["left_alone"]
    assert found[name]["work"] < 3


@pytest.mark.parametrize("name", CONFIGS)
def test_text_rows_leave_the_towers_unused_and_no_more(found, name):
    facts = facts_of(found[name])
    unused, towers = facts.of("text").unused, set()
    for kind in facts.kinds:
        towers |= set(kind.towers)
    assert unused
    assert all(observed.under(path, towers) or path.endswith("image_newline") for path in unused)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_tower_is_called_twice_by_an_image_and_a_video(found, name):
    both = facts_of(found[name]).of("image+video")
    if name in CALLED_TWICE:
        assert both.repeats[0] == (CALLED_TWICE[name], 2)
    for kind in ("text", "image", "video", "audio"):
        one = facts_of(found[name]).of(kind)
        assert one is None or one.repeats == ()


def test_towers_that_run_before_and_behind_the_input_embeddings(found):
    assert facts_of(found["MllamaForConditionalGeneration"]).of("image").towers_first is True
    assert facts_of(found["LlavaForConditionalGeneration"]).of("image").towers_first is False


def test_minicpm_merges_image_by_image(found):
    facts = facts_of(found["MiniCPMV4_6ForConditionalGeneration"])
    assert facts.per_item == ("model.merger.mlp.0",)


@pytest.mark.parametrize("name", ["Mllama", "LlavaOnevision"])
def test_a_cut_copy_says_what_one_of_full_depth_says(found, name):
    name += "ForConditionalGeneration"
    deep = facts_of(found[f"deep {name}"])
    cut = facts_of(found[name])
    assert cut.stacks
    assert not deep.stacks
    assert cut.kinds == deep.kinds
    assert (cut.never_used, cut.skipped) == (deep.never_used, deep.skipped)


def test_under_lora_the_weights_put_in_share_the_fate_of_what_they_change(found):
    lora = found["lora"]
    assert lora["reason"] == ""
    assert lora["unknown"] == []
    assert lora["layers"] == 2 * 2 * (24 + 32)
    behind = [name for name in lora["never"] if "lora" in name]
    assert len(behind) == 4
    assert all("vision_tower.encoder.layers.23." in name for name in behind)


def test_checkpointing_replaced_for_the_whole_process_is_neither_used_nor_changed(found):
    assert found["checkpoint"]["calls"] == 0
    assert found["checkpoint"]["left_alone"]
    assert facts_of(found["checkpoint"]) == facts_of(found["Qwen2VLForConditionalGeneration"])


def test_a_dummy_image_that_a_framework_runs_under_deepspeed_is_seen(found):
    plain, deepspeed = map(facts_of, found["own dummy"])
    assert plain.of("text").unused == ("model.visual",)
    assert deepspeed.of("text").unused == ()
    assert deepspeed.of("image").unused == ()


def test_a_templates_dummies_are_seen_for_each_tower_and_stage(found):
    """Its source says the same of all three."""
    assert found["template"] == {
        "plain": ["audio"], "zero2": [], "zero3": ["audio"], "left_alone": True,
        "inferring": "it ran no tower",
    }  # fmt: skip


def test_zero3_changes_no_answer_and_goes_on(found):
    *done, last = found["zero3"]
    names = ["Qwen2VLForConditionalGeneration", "LlavaForConditionalGeneration"] * 2
    for data, name in zip(done, names, strict=True):
        assert data["left_alone"]
        assert facts_of(data) == facts_of(found[name])
    assert last == {"partitioned": True, "ended": True}
