"""``vlmguard rehearse --yes`` on a user's own scripts around transformers' Trainer.

What real gloo ranks do with those of tests/frameworks/trainers is known there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from tests.frameworks.rehearse.known import of_command
from tests.frameworks.trainers.cases import CASES
from tests.kit import envs, overlays, runs, trainers
from tests.kit.trainers import plain

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
TELLING = {"healthy": plain("image"), "lora-reentrant": CASES["plain-lora-reentrant"].command}
LONG = {"zero3-phases": CASES["plain-zero3-phases"].command,
        "mixed": CASES["plain-mixed"].command,
        "mixed-accelerate": CASES["plain-mixed-accelerate"].command}  # fmt: skip
OWN = {"wrong-factor": "--factor 2", "gone": "--notes gone.txt"}
LONG_OWN = {"ignored": "--accumulate 2", "fine": "--accumulate 1"}


def asked(which, *, yes=True):
    """Answers by name, what is left in the folder, and the exit status: asked once a session."""

    def ask():
        folder = runs.session() / f"rehearse-own-{which}-{yes}"
        for each in ("home", "work"):
            (folder / each).mkdir(parents=True)
        commands, own = (TELLING, OWN) if which == "telling" else (LONG, LONG_OWN)
        model = runs.model_folder("trl", "qwen2_vl")
        lines = [of_command("trl", name, each, 2)[0] for name, each in commands.items()]
        script = trainers.PROGRAMS / "own_loss.py"
        lines += [f"torchrun --nproc_per_node 2 {script} --model {shlex.quote(str(model))} {words}"
                  for words in own.values()]  # fmt: skip
        (folder / "work" / "train.sh").write_text("\n".join(lines) + "\n")
        done = run(folder, *(["--yes"] if yes else []))
        jobs = dict(zip([*commands, *own], json.loads(done.stdout)["jobs"], strict=True))
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        return json.dumps({"jobs": jobs, "exit": done.returncode, "left": left})

    return json.loads(runs.told(f"rehearse-own-{which}-{yes}", ask))


def run(folder, *flags, over=()):
    path = [runs.KIT / "standins", trainers.PROGRAMS, envs.ROOT, envs.ROOT / "plugins", *over]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("VLMGUARD")}
    around = {**bare, "PYTHONPATH": os.pathsep.join(map(str, path)), "HOME": str(folder / "home")}
    done = subprocess.run(
        [envs.program("trl"), "-m", "vlmguard", "rehearse", *flags, "--format", "json", "train.sh"],
        env=around, cwd=folder / "work", text=True, capture_output=True, timeout=800, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done


def test_a_healthy_script_is_right_as_far_as_shown_and_leaves_nothing():
    told = asked("telling")
    found = told["jobs"]["healthy"]
    assert (found["verdict"], found["exit"], found["strategy"]) == ("right", 3, "ddp"), found
    assert "plain cross-entropy" in found["off"]["against"]
    assert any("after train()" in one for one in found["left_out"])
    assert found["off"]["judged"] > 3
    assert told["left"] == ["home", "work", "work/train.sh"]


def test_ranks_that_crash_are_told_and_vlmguard_mends_them():
    found = asked("telling")["jobs"]["lora-reentrant"]
    assert (found["verdict"], found["on"]["kind"]) == ("crash", "right"), found
    assert "VG101" in found["mended"]
    assert "mark a variable ready only once" in found["off"]["message"]


def test_a_wrong_factor_of_its_own_loss_is_not_right():
    found = asked("telling")["jobs"]["wrong-factor"]
    assert found["verdict"] == "silently wrong", found
    assert "Scaled.compute_loss: its gradients are 2.00 times" in found["off"]["why"]


def test_a_file_that_is_missing_is_the_reason():
    found = asked("telling")["jobs"]["gone"]
    assert (found["verdict"], found["exit"]) == ("cannot tell", 2)
    assert "own_loss.py: before its training: FileNotFoundError" in found["why"]
    assert "gone.txt" in found["why"]


def test_nothing_is_run_without_yes():
    told = asked("telling", yes=False)
    for found in told["jobs"].values():
        assert (found["verdict"], found["exit"]) == ("cannot tell", 2)
        assert "is your own code, and nothing of it was run" in found["why"]
        assert "--yes" in found["why"]
    assert told["left"] == ["home", "work", "work/train.sh"]


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "verdict", "told"), [
    ("zero3-phases", "silently wrong", "VG108"),
    ("mixed", "hang", "VG106"),
    ("mixed-accelerate", "hang", "VG106"),
])  # fmt: skip
def test_it_says_what_real_ranks_do(name, verdict, told):
    found = asked("long")["jobs"][name]
    assert (found["verdict"], found["on"]["kind"]) == (verdict, "right"), found
    assert told in found["mended"]


@pytest.mark.campaign
def test_a_loss_that_ignores_the_number_of_tokens_is_wrong_where_steps_are_accumulated():
    jobs = asked("long")["jobs"]
    assert jobs["fine"]["verdict"] == "right", jobs["fine"]
    assert any("its own optimizer: plain SGD" in one for one in jobs["fine"]["left_out"])
    assert "2.00 times" in jobs["ignored"]["off"]["why"], jobs["ignored"]


@pytest.mark.campaign
def test_a_healthy_script_is_right_under_releases_in_a_folder_of_their_own(tmp_path):
    for each in ("home", "work"):
        (tmp_path / each).mkdir()
    line, _ = of_command("trl", "healthy", plain("image", over="trl-0.25"), 2)
    models = [str(runs.model_folder("trl", "qwen2_vl", over)) for over in ("", "trl-0.25")]
    (tmp_path / "work" / "train.sh").write_text(line.replace(*models) + "\n")
    done = run(tmp_path, "--yes", over=[overlays.folder("trl-0.25", "trl")])
    [found] = json.loads(done.stdout)["jobs"]
    assert (found["verdict"], found["off"]["kind"]) == ("right", "right"), found
