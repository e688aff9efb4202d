"""What happens when something is wrong that the guard cannot mend, and around installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import envs, swift
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(3)]
KIT = Path(swift.__file__).parent
LORA = ["--tuner_type", "lora"]
REENTRANT = ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']


def tail(outcome):
    return outcome.output[-3000:]


def test_a_stop_in_one_worker_brings_every_rank_down_in_10_seconds():
    broken = ["--external_plugins", str(KIT / "external" / "drop_pixels.py")]
    flags = [*LORA, *broken, "--dataloader_num_workers", "1"]
    done = swift.run(["sft"], "qwen2_vl", "image", flags, guard=True)
    stopped = [f for f in done.findings if f["outcome"] == "stopped"]
    assert {(f["code"], f["rank"]) for f in stopped} == {("VG201", 1)}, tail(done)
    assert done.returncode != 0
    assert not done.hung
    assert done.seconds_after("VG201 stopped") < 10
    assert not done.survivors
    assert "VG201" in done.output[done.output.rindex("Root Cause") :]


def test_a_known_crash_is_explained_under_its_traceback():
    flags = [*LORA, *REENTRANT, "--vlmguard", "VG101=off"]
    done = swift.run(["sft"], "qwen2_vl", "image", flags, guard=True)
    assert done.returncode != 0
    after = done.output[done.output.index("RuntimeError: Expected to mark a variable") :]
    assert "VG501 explained" in after, tail(done)
    assert '"use_reentrant": false' in after


def test_a_third_partys_wheel_is_called_in_every_rank(tmp_path):
    subprocess.run(
        [envs.program("swift"), "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation",
         "--target", str(tmp_path / "site"), str(KIT.parents[1] / "examples" / "vlmguard-example")],
        check=True,
    )  # fmt: skip
    path = f"{KIT / 'standins'}{os.pathsep}{tmp_path / 'site'}"
    done = swift.run(["sft"], "qwen2_vl", "image", LORA, guard=True, extra={"PYTHONPATH": path})
    assert done.returncode == 0, tail(done)
    assert {f["rank"] for f in done.findings if f["code"] == "XM101"} == {0, 1}


def test_a_yaml_config_carries_our_flags(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("vlmguard:\n  - VG101=off\ntuner_type: lora\n")
    done = swift.run(["sft", str(config)], "qwen2_vl", "image", REENTRANT, guard=True)
    assert "Expected to mark a variable ready only once" in done.output, tail(done)


def test_the_wheel_installs_arms_and_leaves_nothing(tmp_path):
    root = KIT.parents[1]
    python = envs.program("dev")
    subprocess.run(
        [python, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w",
         str(tmp_path), str(root)],
        check=True,
    )  # fmt: skip
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    fresh = str(tmp_path / "venv" / "bin" / "python")
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    before = {path.name for path in site.iterdir()}
    wheel = str(next(tmp_path.glob("vlmguard-*.whl")))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*command):
        return subprocess.run(
            [fresh, *command], capture_output=True, text=True, env=environment, cwd=tmp_path
        )

    assert run("-m", "pip", "install", "--no-deps", wheel).returncode == 0
    names = {path.name for path in site.iterdir()}
    assert {"vlmguard.pth", "vlmguard.start", "vlmguard", "vlmguard_swift"} <= names
    assert (site / "vlmguard" / "_compat" / "choice.toml").is_file()
    assert not (site / "vlmguard" / "_startup").exists()
    seen = run("-c", "import sys; print('vlmguard._bootstrap' in sys.modules)")
    assert seen.stdout == "True\n", seen.stderr
    assert run("-m", "pip", "uninstall", "-y", "vlmguard").returncode == 0
    assert {path.name for path in site.iterdir()} == before


DARK = ["--tuner_type", "full", "--freeze_vit", "false",
        "--external_plugins", str(KIT / "external" / "no_grad_tower.py")]  # fmt: skip


def test_a_tower_without_gradients_stops_before_ddp_fails_for_it():
    done = swift.run(["sft"], "qwen2_vl", "image", DARK, guard=True)
    assert done.returncode != 0, tail(done)
    assert {f["code"] for f in done.findings if f["outcome"] == "stopped"} == {"VG302"}
    assert "SGD STEPPED" not in done.output
    off = swift.run(["sft"], "qwen2_vl", "image", DARK, guard=False)
    assert "Expected to have finished reduction" in off.output, tail(off)


def test_a_tower_that_runs_without_gradients_is_told():
    """Who calls it under no_grad may mean it: a warning that says what was seen."""
    flags = [*DARK, "--deepspeed", "zero2", "--max_steps", "9"]
    done = swift.run(["sft"], "qwen2_vl", "image", flags, guard=True)
    assert done.returncode == 0, tail(done)
    told = [f for f in done.findings if f["code"] == "VG302"]
    assert {f["outcome"] for f in told} == {"warned"}, told
    assert all("it ran with gradients switched off in 8 steps" in f["why"] for f in told)
    off = swift.run(["sft"], "qwen2_vl", "image", flags, guard=False)
    verdict = bitwise(done.ranks, off.ranks)
    assert verdict, str(verdict)


def test_an_older_deepspeed_wants_the_reentrant_variant():
    """Weights are not compared: ZeRO-3 of that release races on CPU, checkpointing or not."""
    flags = [*LORA, "--deepspeed", "zero3", "--gradient_checkpointing_kwargs",
             '{"use_reentrant": false}']  # fmt: skip
    over = "swift-deepspeed-0.18"
    off = swift.run(["sft"], "qwen2_vl", "image", flags, guard=False, over=over)
    assert off.returncode != 0
    assert "Recomputed values for the following tensors have different metadata" in off.output
    on = swift.run(["sft"], "qwen2_vl", "image", flags, guard=True, over=over)
    assert on.returncode == 0, tail(on)
    assert "VG105" in on.fixed()


def test_a_replaced_sample_is_named_by_the_rank_that_met_it():
    """Row 2, whose picture is none: rank 0 takes another one, and nobody would know."""
    off = swift.run(["sft"], "qwen2_vl", "broken", LORA, guard=False)
    on = swift.run(["sft"], "qwen2_vl", "broken", LORA, guard=True)
    assert on.returncode == off.returncode == 0, tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)
    found = [f for f in on.findings if f["code"] == "VG203"]
    assert [(f["rank"], f["outcome"]) for f in found] == [(0, "warned")], found
    assert "row 2" in found[0]["why"]
    told = [*LORA, "--vlmguard", "VG203=error"]
    stopped = swift.run(["sft"], "qwen2_vl", "broken", told, guard=True)
    assert stopped.returncode != 0
    assert "VG203" in stopped.output[stopped.output.rindex("Root Cause") :], tail(stopped)
