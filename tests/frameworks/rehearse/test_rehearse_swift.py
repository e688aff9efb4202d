"""``vlmguard rehearse`` on a script of ten commands, in one warm process: four that fail and two
that are right are drawn, the others are always there.

What real gloo ranks do with each is known: tests/frameworks/swift/test_cases.py runs them.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shlex
import subprocess
from dataclasses import dataclass

import pytest

from tests.frameworks.rehearse import late, tasks
from tests.frameworks.swift.cases import CASES, HEALTHY
from tests.frameworks.swift.classes import BY_NAME
from tests.kit import envs, runs, seeds, swift

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1500)]
CHANCE = random.Random(seeds.seed("VLMGUARD_REHEARSE"))
KNOWN = {
    "sft-lora": "crash",
    "grpo-lora": "crash",
    "sft-zero2-per-image": "crash",
    "dpo-zero2-per-image": "crash",
    "sft-zero3-per-image": "silently wrong",
    "sft-zero2-lora-no-embeddings": "silently wrong",
    "llava-zero3-text-step": "silently wrong",
    "qwen3-ranks-differ": "hang",
}
FAILING = {name: KNOWN[name] for name in CHANCE.sample(sorted(KNOWN), 4)}
RIGHT = dict([("full-vision-mixed", 8), CHANCE.choice([("zero2", 2), ("zero3", 16), ("dpo", 2)])])
"""Name → ranks. Two are run, and one alone at that size, with its own optimizer and dtype."""
CLASSES = {"llava-zero3-mixed-eval": "evaluation", "gemma3-fsdp2": "forward"}
"""Hangs of test_classes.py, and where both ranks are: the first trains on rows with images
alone, and its ranks part when it evaluates."""

SMOOTHED = "--label_smoothing_factor 0.1"
"""The Trainer's own smoother does not shift the labels of this class: guard off, guard on and the
reference learn the same wrong thing, and only the ledger tells."""


OWN_LOSS = shlex.join([
    "--external_plugins", str(swift.KIT / "external" / "own_loss.py"), "--loss_type", "own",
    "--gradient_accumulation_steps", "2",
])  # fmt: skip
"""A loss of one's own that takes no notice of num_items_in_batch: the same on one rank."""


def line(case, world=2):
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in case.flags]
    words = swift.command(case.verb, case.model, case.data, flags)
    local = min(world, 8)
    return f"NNODES={world // local} NPROC_PER_NODE={local} swift {shlex.join(words)}"


def ask(*words, cwd, home):
    standins = str(envs.ROOT / "tests" / "kit" / "standins")
    path = os.pathsep.join([standins, str(envs.ROOT), str(envs.ROOT / "plugins")])
    bare = {k: v for k, v in os.environ.items() if not k.startswith("VLMGUARD")}
    around = {**bare, "PYTHONPATH": path, "HOME": str(home), "MAX_PIXELS": "16384"}
    return subprocess.run(
        [envs.program("swift"), "-m", "vlmguard", "rehearse", *words], env=around, cwd=cwd,
        text=True, capture_output=True, timeout=1400, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@dataclass(frozen=True)
class Done:
    exit: int
    jobs: dict
    left: list


@functools.cache
def done():
    """All commands of one script, asked once for all processes of a test session."""
    return Done(**json.loads(runs.told("rehearse-swift", _asked)))


def _asked():
    folder = runs.session() / "rehearse-swift"
    cases = {case.name: case for case in CASES if case.name in FAILING}
    healthy = {f"healthy-{case.name}": case for case in HEALTHY if case.name in RIGHT}
    lines = [line(case) for case in cases.values()]
    lines += [line(case, RIGHT[case.name]) for case in healthy.values()]
    lines += [line(BY_NAME[name]) for name in CLASSES]
    full = line(next(case for case in HEALTHY if case.name == "full"))
    lines += [f"{full} {SMOOTHED}", f"{full} {OWN_LOSS}", late.FAR().line()[0]]
    for each in ("home", "work"):
        (folder / each).mkdir(parents=True)
    (folder / "work" / "train.sh").write_text("\n".join(lines) + "\n")
    asked = ask("--yes", "--format", "json", "train.sh", cwd=folder / "work", home=folder / "home")
    assert asked.stdout, asked.stderr
    names = [*cases, *healthy, *CLASSES, "smoothed", "own loss", "far reward"]
    jobs = dict(zip(names, json.loads(asked.stdout)["jobs"], strict=True))
    left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
    return json.dumps({"exit": asked.returncode, "jobs": jobs, "left": left})


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_is_told_and_what_mends_it(name):
    case = next(case for case in CASES if case.name == name)
    job = done().jobs[name]
    assert (job["verdict"], job["exit"]) == (FAILING[name], 1), job
    off = job["off"]
    if FAILING[name] == "crash":
        assert case.broken in off["message"]
        assert off["where"]
    if FAILING[name] == "hang":
        lines = {site for _, _, _, site in off["sites"]}
        assert len(lines) == 2, "both sides, at different lines"
    if FAILING[name] == "silently wrong":
        assert off["off"] > 0.05
        assert off["order"] == "the loader's order"
    assert job["on"]["kind"] == "right", job["on"]
    assert case.fixes <= set(job["mended"])
    assert job["on"]["off"] < 2e-3


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_right(name):
    job = done().jobs[f"healthy-{name}"]
    assert (job["verdict"], job["exit"]) == ("right", 3 if job["left_out"] else 0), job
    assert job["off"]["off"] <= 1e-4
    assert job["on"]["off"] <= 1e-4
    assert job["off"]["judged"] > 3
    assert job["world"] == RIGHT[name]
    assert job["alone"]["kind"] == "right", job["alone"]


@pytest.mark.parametrize("name", CLASSES)
def test_hangs_of_evaluation_and_of_fsdp2_are_told(name):
    job = done().jobs[name]
    assert (job["verdict"], job["exit"]) == ("hang", 1), job
    assert {phase for _, phase, _, _ in job["off"]["sites"]} == {CLASSES[name]}
    assert job["on"]["kind"] == "right", job["on"]
    assert ("evaluation" in job["not_shown"]) is (name == "gemma3-fsdp2")


def test_an_error_that_the_reference_shares_is_told_by_the_ledger():
    job = done().jobs["smoothed"]
    assert (job["verdict"], job["off"]["kind"]) == ("silently wrong", "silently wrong"), job
    assert job["on"]["why"].startswith(("VG620", "VG622")), job["on"]


def test_an_own_loss_that_ignores_num_items_in_batch_is_told_with_the_factor():
    job = done().jobs["own loss"]
    assert (job["verdict"], job["off"]["kind"]) == ("silently wrong", "silently wrong"), job
    assert "VG622" in job["on"]["why"], job["on"]
    assert "4 times too large" in job["on"]["why"], job["on"]


def test_a_reward_that_fails_at_a_row_far_behind_is_told():
    """Row 150 of 200, which looks like the others."""
    job = done().jobs["far reward"]
    assert (job["verdict"], job["off"]["order"]) == ("crash", "its ending"), job
    assert "solution of row 14" in job["off"]["message"]


def test_ranks_that_differ_are_forced_where_rows_differ():
    job = done().jobs["healthy-full-vision-mixed"]
    assert "ranks differ" in job["orders"]


def test_the_worst_is_the_exit_status_and_nothing_was_written():
    assert done().exit == 1
    assert done().left == ["home", "work", "work/train.sh"]


TASKS = {"task-kto-zero2": "right", "task-seq_cls-reentrant": "crash",
         "task-embedding-no-embeddings": "silently wrong"}  # fmt: skip
"""What real ranks do with them: docs/data/rehearse_jobs.jsonl."""


def test_other_tasks_are_judged_as_real_ranks_do(tmp_path):
    found = {run.name: run for run in tasks.made()}
    for each in ("home", "work"):
        (tmp_path / each).mkdir()
    script = tmp_path / "work" / "train.sh"
    script.write_text("".join(f"{line(found[name])}\n" for name in TASKS))
    asked = ask("--yes", "--format", "json", "train.sh", cwd=script.parent, home=tmp_path / "home")
    assert asked.stdout, asked.stderr
    told = json.loads(asked.stdout)["jobs"]
    assert [job["verdict"] for job in told] == list(TASKS.values()), [job["off"] for job in told]
    assert [job["on"]["kind"] for job in told] == ["right"] * 3, told


def refused(tmp_path, *words):
    for each in ("home", "work"):
        (tmp_path / each).mkdir()
    return ask("--", *words, cwd=tmp_path / "work", home=tmp_path / "home")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "Qwen/Qwen2-VL-7B-Instruct"], "Qwen/Qwen2-VL-7B-Instruct: its config.json"),
        (["--model", "./nowhere"], "./nowhere"),
        (["--model", "."], "without config.json"),
        (["--model", "{model}", "--dataset", "gone.jsonl"], "gone.jsonl: there is no such"),
        (["--model", "{model}", "--external_plugins", "mine.py"], "mine.py): allow it with --yes"),
        (["--model", "{model}", "--sequence_parallel_size", "2"], "subgroups of ranks"),
        (["--model", "{model}", "--packing", "true"], "--packing"),
    ],
)
def test_what_cannot_be_rehearsed_is_one_line(tmp_path, words, told):
    model = str(runs.model_folder("swift", "qwen2_vl"))
    words = [word.replace("{model}", model) for word in words]
    asked = refused(tmp_path, "NPROC_PER_NODE=2", "swift", "sft", *words)
    assert asked.returncode == 2, asked.stderr
    assert told in asked.stdout
    assert len(asked.stdout.splitlines()) == 3
