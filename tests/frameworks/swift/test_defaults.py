"""Defaults that a release changed, in real runs."""

from __future__ import annotations

import json

import pytest

from tests.kit import swift

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(1)]
LORA = ["--tuner_type", "lora"]


def zero2(folder, **more):
    """A DeepSpeed config as people write it, with or without the key."""
    config = {
        "zero_optimization": {"stage": 2},
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **more,
    }
    path = folder / "zero2.json"
    path.write_text(json.dumps(config))
    return ["--deepspeed", str(path)]


@pytest.mark.parametrize(("more", "warned"), [({}, True), ({"gradient_clipping": "auto"}, False)])
def test_a_deepspeed_config_without_gradient_clipping(tmp_path, more, warned):
    done = swift.run(["sft"], "qwen2_vl", "image", [*LORA, *zero2(tmp_path, **more)], guard=True)
    assert done.returncode == 0, done.output[-3000:]
    found = {f["outcome"] for f in done.findings if f["code"] == "VG403"}
    assert found == ({"warned"} if warned else set()), done.output[-3000:]
    levels = {f["code"] for f in done.findings if f["level"] != "note"}
    assert levels <= {"VG403"}
