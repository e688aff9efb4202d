"""Ranks with different kinds of rows, on real models in real ranks: without the blank input they
part, with it every weight update is plain torch's."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs, runs
from tests.kit.turns import turn

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
KIT = Path(envs.__file__).parent
EXACT = 1e-4
"""Relative error of the worst tensor's update that counts as right: measured are 1e-6 to 8e-5, the
larger where ZeRO-3 sums a small gradient in another order."""

PARTS = (
    "llava/zero3/trained/differ/off",
    "llava/zero3/lora/differ/off",
    "llava/zero2/trained/differ/off",
    "llava/fsdp2/trained/differ/off",
    "mllama/zero2/frozen/differ/off",
    "llava/zero3/trained/differ/alone",
    # Its forward calls the projector, its method for the features does not: not without a trial.
    "llama4/zero2/trained/differ/before",
)
STOPPED = ("llava/zero3/trained/differ/told",)
RIGHT = (
    "llava/zero3/trained/most/before",
    "llava/zero3/lora/most/before",
    "llava/zero2/trained/most/after",
    "llava/fsdp2/trained/most/before",
    "llava/fsdp2/lora/differ/after",
    "mllama/zero3/trained/most/before",
    "mllama/zero2/frozen/differ/before",
    "mllama/fsdp2/trained/differ/before",
    "llava_next/zero2/frozen/differ/before",
    "qwen2_vl/zero3/trained/generate/after",
    "qwen3_vl/zero3/trained+ckpt/differ/before",
    "minicpmv4_6/zero2/trained/differ/before",
    "idefics3/fsdp2/trained/most/before",
    "llava_next/zero3@3/tower/most/before",
    "llama4/zero2/trained/differ/tried",
    "llama4/zero3/trained/most/tried",
    "llama4/fsdp2/trained/most/tried",
)


@functools.cache
def measured() -> dict[str, dict]:
    """Every cell's line, from one process that imports once."""
    lines = [json.loads(line) for line in runs.told("blank-ranks", measure).splitlines()]
    return {line["cell"]: line for line in lines}


def measure() -> str:
    sources = [str(KIT / "standins"), str(envs.ROOT), str(envs.ROOT / "plugins")]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sources),
        "VLMGUARD": "off",
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    with turn():
        done = subprocess.run(
            [envs.program("swift"), str(HERE / "blank_ranks.py"), *PARTS, *STOPPED, *RIGHT],
            env=variables, capture_output=True, text=True, timeout=800, check=False,
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cell"')]
    assert len(lines) == len(PARTS + STOPPED + RIGHT), done.stdout[-2000:] + done.stderr[-4000:]
    return "\n".join(lines)


@pytest.mark.parametrize("cell", PARTS)
def test_without_it_ranks_part(cell):
    told = measured()[cell]
    assert told["verdict"] == "mismatch", told
    one, other = told["sites"]
    assert one != other
    assert one.startswith("step 0"), told


@pytest.mark.parametrize("cell", STOPPED)
def test_a_rank_whose_blank_fails_alone_is_stopped_with_the_reason(cell):
    told = measured()[cell]
    assert told["verdict"] == "crash", told
    assert "VG106: the blank input failed on this rank (RuntimeError: no mem" in told["cause"], told
    assert "and not on rank 0" in told["cause"], told


@pytest.mark.parametrize("cell", RIGHT)
def test_with_it_updates_are_right(cell):
    told = measured()[cell]
    assert told["verdict"] == "ok", told
    assert told["fault"] == ""
    assert min(told["padded"]) > 0
    assert told["update"] < EXACT, told
    assert told["losses"] < EXACT, told
    assert told["tokens"], told
