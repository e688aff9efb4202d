"""examples/colossalai/train.py, as docs/colossalai.md shows it: two ranks, rows with and without an
image, accumulation, a checkpoint, and a run that goes on from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.frameworks.colossalai import launch
from tests.kit import envs, processes
from tests.kit.turns import turn
from vlmguard.ranks import ports

pytestmark = pytest.mark.frameworks
HERE = Path(__file__).parent
SCRIPT = HERE.parents[2] / "examples" / "colossalai" / "train.py"
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def _rows(folder):
    from PIL import Image

    Image.new("RGB", (56, 56), (200, 30, 30)).save(folder / "cat.png")
    rows = []
    for number in range(16):
        seen = number % 3 == 0
        text = f"{IMAGE if seen else ''}say {number}: hello number {number}<|im_end|>"
        rows.append({"text": text, **({"images": [str(folder / "cat.png")]} if seen else {})})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))


def _run(folder, guard, *options):
    python, port = envs.program("colossalai"), ports.free()
    command = [python, "-m", "torch.distributed.run", "--nproc_per_node=2",
               "--master_addr=127.0.0.1", f"--master_port={port}", str(HERE / "cpu_script.py"),
               str(SCRIPT), "--model", str(launch.models() / "qwen2_vl"), "--data", "rows.jsonl",
               *options]  # fmt: skip
    around = {k: v for k, v in os.environ.items() if not k.startswith(("VLMGUARD", "PYTHON"))}
    around |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    around |= {"VLMGUARD": guard}
    if envs.SOURCES:
        around["PYTHONPATH"] = os.pathsep.join(map(str, envs.SOURCES))
    with turn():
        done = processes.watch(command, around, folder, timeout=240, quiet=240)
    lines = [text for _, text in done.lines]
    return done.returncode, [line for line in lines if line.startswith("step ")]


@pytest.mark.parametrize("plugin", ["gemini", "zero"])
def test_the_example_fails_without_the_guard_and_goes_on_from_a_checkpoint_with_it(
    tmp_path, plugin
):
    _rows(tmp_path)
    options = ("--plugin", plugin, "--save-every", "2")
    if plugin == "gemini":
        code, steps = _run(tmp_path, "off", *options, "--steps", "4", "--out", "off")
        assert code != 0
        assert len(steps) < 4
    code, whole = _run(tmp_path, "on", *options, "--steps", "4", "--out", "on")
    assert code == 0
    assert [line.split()[1] for line in whole] == ["1", "2", "3", "4"]
    code, rest = _run(
        tmp_path, "on", *options, "--steps", "3", "--out", "more", "--resume", "on/step-2"
    )
    assert code == 0
    assert [line.split()[1] for line in rest] == ["3"]
    assert (tmp_path / "more" / "step-3" / "state.json").exists()
