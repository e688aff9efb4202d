"""Reentrant checkpointing where it is right without us: it is changed, said as a condition, and the
run stays the same to the last bit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kit.turns import turn
from tools.ordinary import campaign, draws

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def workers():
    with campaign.working() as found:
        yield found


@pytest.mark.parametrize("model", ["qwen3_5", "glm_ocr"])
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_a_tower_that_does_not_repeat(strategy: str, model: str, workers: campaign.Workers) -> None:
    """Qwen3.5 and GLM-OCR: "VG102 set … trains it wrongly" was said once."""
    draw = replace(
        draws.draw(24, 2, 0), program="Trainer", model=model, strategy=strategy, rows="image",
        steps=12, batch=1, accumulation=2, tuning="full", checkpointing=True,
        features=(draws.REENTRANT,),
    )  # fmt: skip
    with turn():
        told = campaign.measure(workers, draw)
    assert told["verdict"] != "not healthy"
    changed = [each for each in told["harm"] if not each.startswith("spoken: VG102 set: if ")]
    assert not changed
    assert len(changed) < len(told["harm"]), "nothing was changed: it is not what it says"
