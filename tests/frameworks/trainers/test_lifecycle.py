"""A Trainer's life with all that it can do at once, guard off and on: the same to the last bit, and
the same end where something of the user's fails. Real ranks of transformers, forked from one."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

from tests.kit import envs, runs
from tools.faults.campaign import Answer, Warm, reasons
from tools.faults.scenarios import Scenario

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(2, always=("epochs",))]
PROGRAM = runs.KIT / "programs" / "lifecycle.py"


@pytest.fixture(scope="module")
def warm():
    """Two processes, one of which was never armed: each forks the ranks of many runs."""
    kept = {guard: Warm("trl", guard=guard) for guard in (False, True)}
    yield kept
    for each in kept.values():
        each.close()


def lived(warm: dict[bool, Warm], what: str, guard: bool) -> Answer:
    scenario = Scenario(what, "trl", True, lambda: [str(PROGRAM), what, "."])
    return warm[guard].run(scenario)


def trained(answer: Answer) -> list[dict[str, object]]:
    """What each rank says that it trained to."""
    told = [re.search(r"TRAINED rank \d (.*)", rank["output"]) for rank in answer["ranks"]]
    assert all(told), answer
    return [json.loads(each.group(1)) for each in told if each]


@pytest.fixture(scope="module")
def life(warm):
    """`lived`, once for each run."""
    return functools.cache(functools.partial(lived, warm))


@pytest.mark.parametrize("what", ["epochs", "resumed", "compiled"])
def test_a_life_is_the_same_with_the_guard(life, what: str) -> None:
    off, on = trained(life(what, False)), trained(life(what, True))
    assert on == off
    assert off[0]["weights"] == off[1]["weights"]
    assert off[0]["steps"] == 9
    assert sum("eval_loss" in entry for entry in off[0]["history"]) >= 4
    assert (life(what, False)["guarded"], life(what, True)["guarded"]) == (False, True)


@pytest.mark.parametrize(
    ("what", "error"), [("callback", "a callback of the user's"), ("worker", "DataLoader worker")]
)
def test_what_is_the_users_ends_as_without_us(life, what: str, error: str) -> None:
    off, on = life(what, False), life(what, True)
    assert (off["verdict"], on["verdict"]) == ("crash", "crash"), on
    for each in (off, on):
        assert any(error in reason for reason in reasons(each)), each
    assert not any("vlmguard" in frame for rank in on["ranks"] for frame in rank["frames"][-1:])


def test_all_ranks_are_gone_soon_after_one_was_killed() -> None:
    def make(folder: Path) -> runs.Outcome:
        variables = runs.variables("trl", folder, guard=True)
        line = [envs.program("trl", "torchrun"), "--nproc_per_node", "2", "--master_port"]
        line += [variables["MASTER_PORT"], str(PROGRAM), "killed", str(folder / "work")]
        return runs.execute(line, folder, variables, timeout=300)

    done = runs.once(["lifecycle", "killed"], make)
    assert done.returncode != 0
    assert not done.hung, done
    assert done.seconds_after("rank 1 is killed") < 10, done
    assert not done.survivors
