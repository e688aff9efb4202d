"""``check --deep`` with the real ms-swift: what only its own code knows, and nothing touched."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit import envs, runs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
PLUGIN = "import pathlib; pathlib.Path('ran').touch()\n"
ROW = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}


def test_the_frameworks_own_words(tmp_path):
    """Two model types have this config: ms-swift asks which. With the type it takes the command, as
    rank 0 of 64, and the plug-in beside it does not run."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (work / "mine.py").write_text(PLUGIN)
    model = runs.model_folder("swift", "qwen2_vl")
    common = f"swift sft --model {model} --dataset rows.jsonl --deepspeed zero3"
    named = "--model_type qwen2_vl --template qwen2_vl"
    good = f"{common} {named} --external_plugins mine.py --tuner_type full"
    (work / "train.sh").write_text(f"export NNODES=8 NPROC_PER_NODE=8\n{common}\n{good}\n")
    before = sorted(tmp_path.rglob("*"))
    path = os.pathsep.join([str(runs.KIT / "standins"), str(envs.ROOT), str(envs.ROOT / "plugins")])
    done = subprocess.run(
        [envs.program("swift"), "-m", "vlmguard", "check", "--deep", "--format", "json",
         "train.sh"],
        capture_output=True, text=True, cwd=work, timeout=500, check=False,
        env={**os.environ, "PYTHONPATH": path, "HOME": str(home)},
    )  # fmt: skip
    ambiguous, taken = json.loads(done.stdout)["jobs"]
    assert ambiguous["state"] == "wrong"
    assert "Please specify `model_type` manually" in ambiguous["reason"]
    assert taken["state"] == "judged", taken
    assert (taken["strategy"], taken["world"]) == ("zero3", 64)
    doubts = [doubt for doubt in taken["not_known"] if "--deep" in doubt]
    assert doubts == ["--deep: without --external_plugins"]
    assert "--vit_gradient_checkpointing" in " ".join(taken["settled"])
    assert sorted(tmp_path.rglob("*")) == before
