"""``--world`` wins over whatever the launcher was told."""

from __future__ import annotations

import pytest

from vlmguard.check import hf, launcher, script
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse.prepare import sized
from vlmguard_trl.check import Trl


@pytest.mark.parametrize("words", [
    "accelerate launch --num_processes 2 train.py --x 1",
    "accelerate launch --config_file two.json train.py",
    "accelerate launch --num_machines 4 --num_processes 32 train.py",
    "torchrun --nproc_per_node 2 train.py",
    "trl sft --num_processes 2 --x 1",
    "trl sft --accelerate_config two.json",
    "trl sft",
])  # fmt: skip
def test_the_number_of_ranks_that_was_asked_for_is_looked_at(words, tmp_path):
    (tmp_path / "two.json").write_text('{"num_processes": 2, "distributed_type": "MULTI_GPU"}')
    files = Files(str(tmp_path))
    [call] = script.of_words(words.split(), {}).jobs
    job = sized(call, 64)
    if words.startswith("trl"):
        argv, job = Trl().argv(job, files)
        assert "--num_processes" not in argv
    assert isinstance(job, launcher.Job)
    assert job.world == 64
    if "accelerate" in job.chain:
        assert hf.accelerate_config(job, files)["num_processes"] == 64
