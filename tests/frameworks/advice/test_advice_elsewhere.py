"""Advice that a plain Trainer cannot show: a tower whose input has no gradient (VG104), an old
DeepSpeed (VG105), a trainer that generates (VG112), rows cut at their limit (VG202)."""

from __future__ import annotations

import pytest

from tests.frameworks.swift import cases
from tests.frameworks.swift.cases import (
    FULL,
    GRPO,
    NO_CHECKPOINTS,
    NO_EMBEDDINGS,
    REENTRANT,
    REWARD,
    VISION,
    zero,
)
from tests.kit import swift
from tests.kit.oracle import compare

pytestmark = [pytest.mark.frameworks, pytest.mark.campaign, pytest.mark.timeout(2400)]
SPEAKS = {"VLMGUARD_RULES": "VG=warn"}
LORA = ["--tuner_type", "lora", "--deepspeed", "zero3", "--gradient_checkpointing_kwargs"]
OLD = "swift-deepspeed-0.18"


def advice(done, code):
    said = [found["advice"] for found in done.findings if found["code"] == code]
    assert said, done.output[-3000:]
    return said[0].split("; or ")


def right(done, reference):
    """Advice that was followed."""
    assert done.returncode == 0, done.output[-3000:]
    verdict = compare(done.ranks, reference.ranks)
    assert verdict, str(verdict)


def test_a_tower_whose_input_has_no_gradient():
    """VG104, and VG302, which advises the same behind the first step."""
    base = [*cases.LORA, *VISION, *zero(2)]

    def sft(*flags, **options):
        return swift.run(["sft"], "qwen2_vl", "image", [*base, *flags], cold=False, **options)

    reference = sft(*NO_CHECKPOINTS, guard=False)
    off = sft(*REENTRANT, *NO_EMBEDDINGS, guard=True, extra=SPEAKS)
    assert off.returncode == 0, off.output[-3000:]
    assert not compare(off.ranks, reference.ranks)
    flag = "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"
    assert advice(off, "VG104") == [
        f"set use_reentrant=False ({flag})", "turn on input gradients for that tower",
    ]  # fmt: skip
    other = ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
    for flags in ([*other, *NO_EMBEDDINGS], REENTRANT):  # ms-swift turns them on by itself
        right(sft(*flags, guard=False), reference)


def test_an_old_deepspeed():
    """VG105. Updates are not compared: ZeRO-3 of that release races on CPU, checkpointed or not."""
    failing = [*LORA, '{"use_reentrant": false}']
    off = swift.run(["sft"], "qwen2_vl", "image", failing, guard=True, over=OLD, extra=SPEAKS)
    assert off.returncode != 0
    assert "Recomputed values for the following tensors have different metadata" in off.output
    flag = "--gradient_checkpointing_kwargs '{\"use_reentrant\": true}'"
    assert advice(off, "VG105") == [f"set use_reentrant=True ({flag})", "upgrade deepspeed"]
    changed = [*LORA, '{"use_reentrant": true}']
    for flags, over in ((changed, OLD), (failing, "")):
        done = swift.run(["sft"], "qwen2_vl", "image", flags, guard=False, over=over)
        assert done.returncode == 0, done.output[-3000:]


def test_a_trainer_that_generates():
    """VG112, on ms-swift: TRL's own GRPO is right."""
    base = [*FULL, *VISION, *REWARD]

    def grpo(*flags, **options):
        return swift.run(GRPO, "llava", "grpo", [*base, *flags], **options)

    reference = grpo(*NO_CHECKPOINTS, guard=False)
    off = grpo(*zero(3), guard=True, extra=SPEAKS)
    assert off.returncode == 0, off.output[-3000:]
    assert not compare(off.ranks, reference.ranks)
    flag = "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"
    assert advice(off, "VG112") == [
        f"set use_reentrant=False ({flag})", "use zero2 (--deepspeed zero2)",
    ]  # fmt: skip
    other = ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
    for flags in ([*zero(3), *other], zero(2)):
        right(grpo(*flags, guard=False), reference)


def test_rows_cut_at_their_limit():
    """VG202. Later releases of ms-swift keep placeholders when they cut. This one cuts before it
    repeats them: of 35 tokens the last 27 are without the image's, and it trains on without it."""
    flags = ["--train_type", "lora", *NO_CHECKPOINTS[:2]]
    flags += ["--truncation_strategy", "left", "--max_length"]
    cut = swift.run(["sft"], "qwen2_vl", "image", [*flags, "27"], guard=True, env="swift32",
                    extra=SPEAKS)  # fmt: skip
    assert cut.returncode == 0, cut.output[-3000:]
    assert "has 0 image tokens, its images need 4" in cut.output
    assert advice(cut, "VG202") == [
        "raise max_length, or lower the pixel budget (raise --max_length, or lower MAX_PIXELS)"
    ]
    whole = swift.run(["sft"], "qwen2_vl", "image", [*flags, "512"], guard=True, env="swift32",
                      extra=SPEAKS)  # fmt: skip
    assert whole.returncode == 0, whole.output[-3000:]
    assert "VG202" not in {found["code"] for found in whole.findings}
