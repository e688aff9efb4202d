"""FSDP2, AdamW, all ranks with text after all had images: what no row reads is not moved by its
momentum, as without a blank input. What a row without a target has read is moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kit.turns import turn
from tools.ordinary import campaign, draws

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("tuning", "checkpointing", "features"),
    [("full", False, ()), ("full", True, ()), ("lora llm", False, ("two trainings",))],
)
def test_layers_of_cross_attention(
    tuning: str, checkpointing: bool, features: tuple[str, ...]
) -> None:
    """Mllama: they are the language model's own, and run on what the tower makes of the blank."""
    draw = replace(
        draws.draw(31, 2, 9), program="Trainer", model="mllama", strategy="fsdp2", rows="phases",
        steps=12, batch=1, accumulation=4, tuning=tuning,
        checkpointing=checkpointing, features=features,
    )  # fmt: skip
    with campaign.working() as workers, turn():
        told = campaign.measure(workers, draw)
    assert told["verdict"] == "as without", told
    assert "VG106 fixed" in told["said"], "no blank has run: it is not what it says"


@pytest.mark.parametrize("number", [6, 7])
def test_an_image_without_target_in_a_window_of_texts(number: int) -> None:
    """It leaves zeros, in a window whose other rows are texts. They are the user's."""
    draw = replace(
        draws.draw(31, 2, 9), number=number, program="Trainer", model="qwen2_vl", strategy="fsdp2",
        rows="phases, some without target", steps=12, batch=1, accumulation=2, tuning="full",
        checkpointing=False, features=(),
    )  # fmt: skip
    with campaign.working() as workers, turn():
        told = campaign.measure(workers, draw)
    assert told["verdict"] == "as without", told
    assert "VG106 fixed" in told["said"], "no blank has run: it is not what it says"
