"""A tower that runs once per image, ranks with different numbers of images: stopped with the true
reason, in place of waiting for ever. In the first step, and in one after DeepSpeed has recorded
the order of modules."""

from __future__ import annotations

import re

import pytest

from tests.frameworks.trainers.cases import FSDP2, NONE
from tests.kit import forked, runs
from tests.kit.trainers import plain, zero

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
MORE = ["--per_image", "true", "--max_steps", "4"]
COMMANDS = {
    "first": plain("uneven", *NONE, *MORE, *zero(3)),
    "later": plain("late", *NONE, *MORE, *zero(3)),
    "fsdp2": plain("late", *NONE, *MORE, *FSDP2),
    "alike": plain("image", *NONE, *MORE, *zero(3)),
}


@pytest.fixture(scope="module")
def ended():
    jobs = [forked.Job(name, command, guard=True) for name, command in COMMANDS.items()]
    jobs += [forked.Job(f"{name} off", COMMANDS[name]) for name in ("first", "later", "fsdp2")]
    return forked.run(jobs, runs.session() / "per-image")


@pytest.mark.parametrize("name", ["first", "later", "fsdp2"])
def test_ranks_that_part_are_stopped(ended, name):
    assert ended[f"{name} off"].verdict != "ok", "it must fail without the guard"
    run = ended[name]
    said = [found for found in run.findings if found["outcome"] == "stopped"]
    assert {found["code"] for found in said} == {"VG113"}, run.output[-3000:]
    assert re.search(r"ranks would hang: .+ runs .+ here, (more|less) often", said[0]["why"])


def test_ranks_alike_go_on(ended):
    run = ended["alike"]
    assert run.verdict == "ok", run.message + run.output[-3000:]
    assert not [found for found in run.findings if found["level"] != "note"]
