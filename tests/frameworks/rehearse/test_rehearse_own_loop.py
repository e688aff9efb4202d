"""``vlmguard rehearse --yes`` on training loops of a user's own.

What real gloo ranks do with them is in docs/data/rehearse_jobs.jsonl (`loops`).
"""

from __future__ import annotations

import json

import pytest

from tests.frameworks.rehearse import loops
from tests.frameworks.rehearse.test_rehearse_own_script import run
from tests.kit import runs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
TELLING = ("ddp-mixed", "ddp-inner", "zero2")


def asked():
    """Answers by name, and what is left in the folder: asked once a session."""

    def ask():
        folder = runs.session() / "rehearse-own-loops"
        for each in ("home", "work"):
            (folder / each).mkdir(parents=True)
        made = {job.name.removeprefix("loop-"): job.line()[0] for job in loops.jobs()}
        lines = [made[name] for name in TELLING]
        lines += [f"{made['by-itself']} --mistake sum", f"{made['ddp']} --mistake kept"]
        (folder / "work" / "train.sh").write_text("\n".join(lines) + "\n")
        done = run(folder, "--yes")
        jobs = dict(zip([*TELLING, "sum", "kept"], json.loads(done.stdout)["jobs"], strict=True))
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        return json.dumps({"jobs": jobs, "left": left})

    return json.loads(runs.told("rehearse-own-loops", ask))


def test_a_healthy_loop_is_right_as_far_as_shown_and_leaves_nothing():
    told = asked()
    found = told["jobs"]["zero2"]
    assert (found["verdict"], found["exit"], found["strategy"]) == ("right", 3, "zero2"), found
    assert "average their gradients without a wrapper" in found["off"]["against"]
    assert "which is the plain cross-entropy" in found["off"]["against"]
    assert any("what comes after its first steps" in one for one in found["left_out"])
    assert told["left"] == ["home", "work", "work/train.sh"]


def test_ranks_that_crash_are_told_and_vlmguard_mends_them():
    found = asked()["jobs"]["ddp-mixed"]
    assert (found["verdict"], found["on"]["kind"]) == ("crash", "right"), found
    assert "VG106" in found["mended"]
    assert "Expected to have finished reduction" in found["off"]["message"]


def test_a_forward_past_the_wrapper_is_silently_wrong():
    found = asked()["jobs"]["ddp-inner"]
    assert found["verdict"] == "silently wrong", found
    assert "drift apart" in found["off"]["why"]


def test_gradients_that_are_summed_and_not_averaged_have_another_scale():
    found = asked()["jobs"]["sum"]
    assert found["verdict"] == "silently wrong", found
    assert "2.00 times those of the cross-entropy" in found["off"]["why"]


def test_gradients_of_the_step_before_are_silently_wrong():
    found = asked()["jobs"]["kept"]
    assert found["verdict"] == "silently wrong", found
    assert "nothing calls zero_grad" in found["off"]["why"]
