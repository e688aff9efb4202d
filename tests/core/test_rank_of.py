from __future__ import annotations

import sys
import types

import pytest

from vlmguard.runtime import ranks

NAMES = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS",
         "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (3, 4)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        # A step of one task in an allocation of eight is one rank.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
        ({"RANK": "all"}, (0, 1)),
        ({"RANK": "2"}, (2, 3)),
    ],
)
def test_of_the_launcher(monkeypatch, environment, answer):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (ranks.rank(), ranks.world()) == answer


@pytest.mark.parametrize(("ready", "answer"), [(True, (5, 8)), (False, (1, 2))])
def test_torchs_own_answer_comes_first_once_it_is_initialised(monkeypatch, ready, answer):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dist = types.SimpleNamespace(
        is_initialized=lambda: ready, get_rank=lambda: 5, get_world_size=lambda: 8
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    assert (ranks.rank(), ranks.world()) == answer
    monkeypatch.setitem(sys.modules, "torch.distributed", types.SimpleNamespace())
    assert ranks.rank() == 1  # half imported


def test_of_a_worker(monkeypatch):
    assert ranks.worker() is None
    info = types.SimpleNamespace(get_worker_info=lambda: types.SimpleNamespace(id=3))
    monkeypatch.setitem(sys.modules, "torch.utils.data", info)
    assert ranks.worker() == 3
