"""Classes of the zoo in two real ranks, against plain torch."""

from __future__ import annotations

import pytest

from tests.kit import envs
from tools.zoo import campaign, runs

pytestmark = pytest.mark.frameworks

# Aria is right without the guard: with a blank ZeRO-3 gathers ahead, and fused experts that call
# their activation as often as rows choose then parted the ranks. Ovis2 has a table of tokens.
HEALTHY = "zoo:AriaForConditionalGeneration/zero3/frozen/phases"
HANGS = "zoo:Ovis2ForConditionalGeneration/zero3/frozen/differ"


def test_right_with_the_guard():
    envs.program(campaign.ENVIRONMENT)
    told = {record["cell"]: record for record in runs.measure([HEALTHY, HANGS])}
    assert told[HEALTHY]["off"]["verdict"] == "right"
    assert told[HEALTHY]["on"]["verdict"] == "right"
    assert told[HEALTHY]["on"]["bitwise"]
    assert told[HANGS]["off"]["verdict"] == "hang"
    assert told[HANGS]["on"]["verdict"] == "right"
