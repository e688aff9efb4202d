"""One process that believes it is a rank of many."""

from __future__ import annotations

import importlib
import os

import pytest

torch = pytest.importorskip("torch")
from torch import distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from vlmguard.ranks import RankEnvironment, not_engaged, phase, run  # noqa: E402
from vlmguard.ranks.outcome import parting, sites  # noqa: E402
from vlmguard.runtime import exchange  # noqa: E402

importlib.import_module("torch._dynamo")


def ranks_of(size, work, tmp_path):
    """Rank 0, then rank 1 with what it broadcast."""
    ranks = [RankEnvironment(rank, size, 8, tmp_path / "tape") for rank in (0, 1)]
    return [run(work, 1, "none", 60, rank) for rank in ranks]


def works(rank):
    size = dist.get_world_size()
    assert (os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]) == (str(size), "8")
    summed, largest = torch.full((3,), 2.0), torch.tensor([rank])
    dist.all_reduce(summed)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    part = torch.tensor([float(rank), float("nan"), 3e38])  # padding that nobody initialised
    gathered = torch.zeros(3 * size)
    dist.all_gather_into_tensor(gathered, part)
    scattered = torch.zeros(2)
    dist.reduce_scatter_tensor(scattered, torch.arange(2.0 * size))
    told = [{"from": 0, "long": "x" * (2 << 20)}] if rank == 0 else [None]
    dist.broadcast_object_list(told, 0)
    everyone = [None] * size
    dist.all_gather_object(everyone, rank)
    half = dist.new_group(list(range(size // 2)))
    dist.barrier(group=half)
    phase("backward")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 2))
    model(torch.ones(1, 3)).sum().backward()
    return {"summed": summed[0].item(), "largest": largest.item(), "gathered": gathered.tolist(),
            "scattered": scattered.tolist(), "told": told[0]["from"], "members": half.size(),
            "everyone": set(everyone)}  # fmt: skip


def decides(rank):
    assert exchange.roll_call("came", 1, dist.get_world_size(), 30.0) == []
    return exchange.decide(1, dist.get_world_size(), "rows", 30.0)


def test_nobody_waits_for_peers_that_are_not_there(tmp_path):
    """They are taken to tell what it tells; a wait would look like a hang."""
    for result in ranks_of(3, decides, tmp_path):
        assert result.verdict == "ok", result.cause
        decision = result.outcomes[0].value
        assert (decision.known, decision.heard) == (True, 3)
        assert decision.values == ((result.outcomes[0].rank, "rows"),)
        assert decision.token
    assert "VLMGUARD_ALONE" not in os.environ, "of those processes alone"


@pytest.mark.parametrize("size", [8, 512])
def test_peers_hold_what_it_holds(size, tmp_path):
    zero, one = ranks_of(size, works, tmp_path)
    assert (zero.verdict, one.verdict) == ("ok", "ok"), (zero.cause, one.cause)
    assert [zero.outcomes[0].rank, one.outcomes[0].rank] == [0, 1]
    told = one.outcomes[0].value
    assert told["summed"] == 2.0 * size
    assert told["largest"] == 1
    assert told["gathered"] == [1.0, 0.0, 0.0] * size
    assert told["scattered"] == [2.0 * size, 3.0 * size]
    assert told["told"] == 0, "from rank 0's tape"
    assert (told["members"], told["everyone"]) == (size // 2, {1})
    assert parting([zero.calls[0], one.calls[0]]) is None
    assert not_engaged("ddp", one.calls, trainable=8) is None


def test_a_rank_that_asks_for_something_else_parts(tmp_path):
    def work(rank):
        if rank % 2 and dist.get_world_size() > 8:
            dist.barrier()
        dist.all_reduce(torch.ones(1))

    zero, one = ranks_of(8, work, tmp_path)
    assert parting([zero.calls[0], one.calls[0]]) is None
    calls = [result.calls[0] for result in ranks_of(64, work, tmp_path)]
    assert [site.call.split()[0] for site in sites(calls, parting(calls))] == [
        "allreduce",
        "barrier",
    ]


def test_what_only_fails_at_that_size(tmp_path):
    def work(rank):
        batch = torch.ones(48)
        batch.view(dist.get_world_size(), -1)

    assert ranks_of(8, work, tmp_path)[0].verdict == "ok"
    _, one = ranks_of(64, work, tmp_path)
    assert (one.verdict, one.cause.rank) == ("crash", 1)
    assert "invalid for input of size 48" in one.cause.message
