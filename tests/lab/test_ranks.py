"""The two engines: outcomes of ranks that return, raise, die, hang or part ways."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from vlmguard.ranks import Call, not_engaged, phase, run  # noqa: E402
from vlmguard.ranks.gloo import GlooGroup  # noqa: E402
from vlmguard.ranks.outcome import Outcome, conclude  # noqa: E402
from vlmguard.ranks.tensor_store import TensorStore, closed, opened  # noqa: E402

importlib.import_module("torch._dynamo")  # DDP imports it: once here, not in every rank
ENGINES = ("gloo", "referee")


def works(rank: int) -> dict[str, object]:
    phase("talk")
    summed = torch.full((3,), float(rank + 1))
    dist.all_reduce(summed)
    gathered = torch.zeros(4)
    dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank)))
    scattered = torch.zeros(2)
    dist.reduce_scatter_tensor(scattered, torch.arange(4.0))
    objects: list[object] = [None, None]
    dist.all_gather_object(objects, "x" * (1 + 40 * rank))  # lengths differ by right
    told = [{"from": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(told, 0)
    dist.barrier()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 2))
    phase("backward")
    model(torch.full((1, 3), float(rank + 1))).sum().backward()
    return {
        "summed": summed.tolist(),
        "gathered": gathered.tolist(),
        "scattered": scattered.tolist(),
        "objects": [len(str(one)) for one in objects],
        "told": told,
        "gradient": model.module.weight.grad.tolist(),
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_data_are_moved(engine):
    result = run(works, group=engine)
    assert result.verdict == "ok", result
    zero, one = (outcome.value for outcome in result.outcomes)
    assert zero["summed"] == [3.0, 3.0, 3.0]
    assert zero["gathered"] == [0.0, 0.0, 1.0, 1.0]
    assert (zero["scattered"], one["scattered"]) == ([0.0, 2.0], [4.0, 6.0])
    assert zero["objects"] == [1, 41]
    assert one["told"] == [{"from": 0}]
    assert zero["gradient"] == one["gradient"] == [[1.5] * 3] * 2
    assert not_engaged("ddp", result.calls, trainable=8) is None


def moves_much(rank: int) -> list[list[float]]:
    """Tensors of many sizes one after the other: those that lie in stores, and small ones."""
    told = []
    for number, size in enumerate((50_000, 3, 12_000, 200_000, 9_000, 50_000)):
        each = torch.arange(size, dtype=torch.float32) + rank + number
        summed = each.clone()
        dist.all_reduce(summed)
        gathered = torch.zeros(2 * size)
        dist.all_gather_into_tensor(gathered, each)
        scattered = torch.zeros(size)
        dist.reduce_scatter_tensor(scattered, gathered)
        dist.broadcast(each, 1)
        told.append([float(t.double().sum()) for t in (summed, gathered, scattered, each)])
    return told


def test_large_tensors_come_as_gloo_brings_them():
    by = {engine: run(moves_much, group=engine) for engine in ENGINES}
    assert by["referee"].verdict == by["gloo"].verdict == "ok", by["referee"].cause
    values = {name: [one.value for one in result.outcomes] for name, result in by.items()}
    assert values["referee"] == values["gloo"]


def test_a_tensor_store_keeps_what_others_may_still_read():
    store = TensorStore(0, opened(1, Path()))
    first, second = store.put(b"a" * 40_000, group=1), store.put(b"b" * 9_000, group=2)
    assert first[1] != second[1]
    store.free(store.held(1))
    third = store.put(b"c" * 30_000, group=1)
    assert third[1] == first[1], "the first one's room is free again"
    assert bytes(store.read(second)) == b"b" * 9_000
    assert bytes(store.read(third)) == b"c" * 30_000
    closed(store.files)


def writes_to_a_tracked_view(rank: int) -> list[float]:
    whole = torch.zeros(4, requires_grad=True)
    first, _ = whole.split(2)
    dist.all_gather_into_tensor(first, torch.full((1,), float(rank)))
    return first.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_is_written_as_nccl_does_it(engine):
    """DeepSpeed 0.18 gathers into views that autograd tracks."""
    result = run(writes_to_a_tracked_view, group=engine)
    assert [outcome.value for outcome in result.outcomes] == [[0.0, 1.0]] * 2, result.cause


def dies_silently(rank: int) -> None:
    if rank == 1:
        os._exit(7)
    dist.barrier()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_silent_death_is_a_crash_with_its_exit_code(engine):
    result = run(dies_silently, group=engine)
    assert result.verdict == "crash"
    assert result.cause is not None
    assert (result.cause.rank, result.cause.state, result.cause.exit_code) == (1, "died", 7)


def killed(rank: int) -> None:
    if rank == 0:
        os.kill(os.getpid(), 9)
    dist.barrier()


def test_a_signal_is_a_negative_exit_code():
    result = run(killed)
    assert result.cause is not None
    assert (result.cause.state, result.cause.exit_code) == ("died", -9)


def raises(rank: int) -> None:
    if rank == 1:
        raise ValueError("rank 1 had enough")
    dist.all_reduce(torch.ones(3))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_cause_is_the_rank_that_failed_by_itself(engine):
    result = run(raises, group=engine)
    assert result.verdict == "crash"
    assert result.cause is not None
    assert (result.cause.rank, result.cause.error) == (1, "ValueError")


def part_ways(rank: int) -> None:
    phase("backward" if rank == 0 else "logging")
    if rank == 0:
        dist.all_reduce(torch.ones(3))
    else:
        dist.broadcast(torch.ones(3), 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_both_sides_of_a_mismatch_are_named(engine):
    result = run(part_ways, group=engine, limit=30)
    assert result.verdict == "mismatch"
    zero, one = result.sites
    assert (zero.call, zero.phase) == ("allreduce SUM float32[3]", "backward")
    assert (one.call, one.phase) == ("broadcast root 0 float32[3]", "logging")
    assert all("in part_ways" in site.site for site in result.sites)
    assert result.seconds < 30


def waits_for_nobody(rank: int) -> None:
    if rank == 0:
        receive_first(1)
    else:
        receive_first(0)


def receive_first(peer: int) -> None:
    dist.recv(torch.ones(3), peer)
    dist.send(torch.ones(3), peer)


def test_the_referee_sees_a_deadlock_at_once_and_names_both_sides():
    started = time.monotonic()
    result = run(waits_for_nobody, group="referee")
    assert result.verdict == "hang"
    assert [site.call for site in result.sites] == ["recv float32[3]"] * 2
    assert all("in receive_first" in site.site for site in result.sites)
    assert time.monotonic() - started < 60, "it waited for its limit"


def leaves_early(rank: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(3))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rank_that_ends_while_another_waits_is_a_hang(engine):
    result = run(leaves_early, group=engine)
    assert result.verdict == "hang"
    assert "in leaves_early" in result.sites[0].site
    assert result.sites[1].site == "ended"


def begins(rank: int) -> tuple[float, float]:
    return GlooGroup.joined_at, time.monotonic()


def test_no_rank_of_gloo_works_before_all_have_joined(monkeypatch):
    """It could end and take along connections that a slower rank still makes."""
    join = GlooGroup.__init__

    def late(self, store, rank, size, timeout):
        join(self, store, rank, size, timeout)
        time.sleep(0.5 if rank == 0 else 0)
        GlooGroup.joined_at = time.monotonic()

    monkeypatch.setattr(GlooGroup, "__init__", late)
    monkeypatch.setattr(GlooGroup, "joined_at", 0.0, raising=False)
    (joined, _), (_, works) = (outcome.value for outcome in run(begins).outcomes)
    assert works >= joined


def test_a_rank_that_was_ended_before_its_first_call_has_not_ended_by_itself():
    waits = Call("recv", "recv float32[3]", 3, 0, "", "here")
    ranks = [Outcome(0, "stopped"), Outcome(1, "stopped"), Outcome(2, "returned")]
    found = conclude(ranks, [[], [waits], [waits]], "hang", 1.0)
    assert [site.site for site in found.sites] == ["not there yet", "here", "ended"]


def spins(rank: int) -> None:
    time.sleep(60)


def test_no_rank_outlives_its_limit():
    result = run(spins, ranks=2, limit=0.5)
    assert result.verdict == "hang"
    assert [outcome.state for outcome in result.outcomes] == ["stopped", "stopped"]
    assert result.seconds < 30


def works_on(rank: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        sum(range(1000))


@pytest.mark.parametrize(("work", "late"), [(spins, False), (works_on, True)])
def test_ranks_that_still_move_when_their_time_is_over_are_late(work, late):
    """A slow machine is no hang."""
    assert run(work, ranks=1, group="none", limit=0.5).late is late


def plain(rank: int) -> int:
    """Trains, but nobody told it that it is one of two."""
    model = torch.nn.Linear(3, 2)
    phase("backward")
    model(torch.ones(1, 3)).sum().backward()
    dist.barrier()
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "zero1", "zero2", "zero3"])
def test_a_run_that_was_not_distributed_is_told(strategy):
    result = run(plain, group="referee")
    assert result.verdict == "ok"
    why = not_engaged(strategy, result.calls, result.outcomes[0].value)
    assert why is not None
    assert "not distributed" in why


def test_ddp_does_not_pass_for_another_wrapper():
    result = run(works, group="referee")
    for strategy in ("fsdp2", "zero1", "zero2", "zero3"):
        assert not_engaged(strategy, result.calls, 8) is not None
    silent = Call("allreduce", "allreduce SUM float32[4]", 4, 0, "backward", "somewhere.py:1 in f")
    assert not_engaged("ddp", [[silent], [silent]], 8) is not None


@pytest.mark.parametrize("ranks", [1, 4])
def test_other_numbers_of_ranks(ranks):
    def work(rank: int) -> float:
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        return float(tensor)

    result = run(work, ranks=ranks, group="referee")
    assert [outcome.value for outcome in result.outcomes] == [float(ranks)] * ranks


def in_pairs(rank: int) -> dict[str, object]:
    """Four ranks in two pairs, made as frameworks make them: by all ranks, whoever is a member."""
    groups = [dist.new_group([0, 2], backend="gloo"), dist.new_group([1, 3])]
    own = groups[rank % 2]
    phase("pairs")
    summed = torch.full((1,), float(rank))
    dist.all_reduce(summed, group=own)
    told = torch.full((1,), float(rank))
    dist.broadcast(told, src=2 + rank % 2, group=own)
    if rank in (0, 2):
        passed = torch.full((1,), 7.0 + rank)
        dist.send(passed, 2, group=own) if rank == 0 else dist.recv(passed, 0, group=own)
        told = torch.cat([told, passed])
    dist.barrier()
    return {"summed": summed.item(), "told": told.tolist(), "rank": dist.get_rank(own)}


@pytest.mark.parametrize("engine", ENGINES)
def test_subgroups(engine):
    result = run(in_pairs, ranks=4, group=engine)
    assert result.verdict == "ok", result.cause
    values = [outcome.value for outcome in result.outcomes]
    assert [value["summed"] for value in values] == [2.0, 4.0, 2.0, 4.0]
    assert [value["told"] for value in values] == [[2.0, 7.0], [3.0], [2.0, 7.0], [3.0]]
    assert [value["rank"] for value in values] == [0, 0, 1, 1]
    pairs = [{call.group for call in log if call.phase == "pairs"} for log in result.calls]
    assert pairs[0] & pairs[1] == {0}  # the world's barrier alone
    assert pairs[0] == pairs[2]


def part_in_a_pair(rank: int) -> None:
    pair = dist.new_group([1, 2])
    if rank:
        size = 3 if rank == 1 else 4
        dist.all_reduce(torch.zeros(size), group=pair)
    dist.barrier()


def test_a_mismatch_within_a_subgroup_is_named():
    result = run(part_in_a_pair, ranks=3, group="referee")
    assert result.verdict == "mismatch"
    assert {site.call for site in result.sites if site.rank} == {
        "allreduce SUM float32[3]", "allreduce SUM float32[4]"}  # fmt: skip


def raises_below(rank: int) -> None:
    def inner() -> None:
        os.write(1, b"a last word")
        raise KeyError("gone")

    inner()


def meets_in_the_store(rank: int) -> str:
    from datetime import timedelta

    store = dist.distributed_c10d._get_default_store()
    store.set(f"told{rank}", f"by {rank}")
    store.wait([f"told{1 - rank}"], timedelta(seconds=20))
    return store.get(f"told{1 - rank}").decode()


@pytest.mark.parametrize("engine", ENGINES)
def test_ranks_share_a_store(engine):
    result = run(meets_in_the_store, 2, engine, 40)
    assert [outcome.value for outcome in result.outcomes] == ["by 1", "by 0"], result.cause


def test_what_a_raising_rank_said_and_where_it_stood():
    outcome = run(raises_below, ranks=1, group="none").outcomes[0]
    assert (outcome.state, outcome.error) == ("raised", "KeyError")
    assert "a last word" in outcome.output
    assert [frame.rsplit(" in ", 1)[1] for frame in outcome.frames] == ["raises_below", "inner"]


def bare(rank):
    raise AssertionError


def test_what_an_assertion_without_a_message_says():
    assert run(bare, ranks=1, group="none").outcomes[0].message == "raise AssertionError"


def test_a_line_is_told_from_its_package_on_wherever_that_lies(tmp_path, monkeypatch):
    (tmp_path / "laid_over" / "utils").mkdir(parents=True)
    asks = "from vlmguard.ranks.collective_calls import here\ndef gather():\n    return here()\n"
    (tmp_path / "laid_over" / "utils" / "operations.py").write_text(asks)
    (tmp_path / "train.py").write_text(f"{asks}told = gather()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    laid = importlib.import_module("laid_over.utils.operations")
    assert laid.gather() == "laid_over/utils/operations.py:3 in gather"
    told = runpy.run_path(str(tmp_path / "train.py"), run_name="__main__")["told"]
    assert told == "train.py:3 in gather"


def test_a_log_lines_gather_is_not_the_wrappers():
    reduced = Call("allreduce", "allreduce SUM float32[8]", 8, 0, "backward", "torch/x.py:1 in f")
    loss = Call("allgather", "allgather float32[1]", 1, 0, "step",
                "accelerate/utils/operations.py:1 in _gpu_gather_one")  # fmt: skip
    weights = Call("allgather", "allgather float32[9]", 9, 0, "step", "deepspeed/x.py:1 in f")
    assert not_engaged("ddp", [[reduced, loss]] * 2, 8) is None
    assert not_engaged("ddp", [[reduced, weights]] * 2, 8) is not None
    assert not_engaged("zero1", [[reduced, loss]] * 2, 8) is not None


def test_a_wrappers_call_below_a_trainers_line_counts():
    """As under ms-swift: the reducer's own call has `Accelerator.backward` as its site."""
    line = "accelerate/accelerator.py:2861 in backward"
    reduced = Call("allreduce", "allreduce SUM float32[8]", 8, 0, "backward", line)
    assert not_engaged("ddp", [[reduced]] * 2, 8) is None
    metric = Call("allreduce", "allreduce SUM float32[8]", 8, 0, "step", line)
    assert not_engaged("ddp", [[metric]] * 2, 8) is not None


def trains_like_a_trainer(rank: int) -> list[str]:
    import types

    from vlmguard.ranks.step_phases import told_by

    class Trainer:
        def training_step(self, model: torch.nn.Module) -> None:
            loss = model(torch.ones(1, 3)).sum()
            dist.all_reduce(torch.zeros(1))
            loss.backward()

    sys.modules["toy.trainer"] = types.SimpleNamespace(Trainer=Trainer)
    points = [("toy.trainer", "Trainer", "training_step", "forward", "step"),
              ("torch", "Tensor", "backward", "backward", "step"),
              ("toy.gone", "Nothing", "x", "a", "b")]  # fmt: skip
    assert told_by(points) == ["Trainer.training_step", "Tensor.backward"]
    assert told_by(points) == []
    Trainer().training_step(DistributedDataParallel(torch.nn.Linear(3, 2)))
    dist.barrier()
    return []


def test_a_trainers_phases_are_told():
    result = run(trains_like_a_trainer, group="referee")
    assert result.verdict == "ok", result.cause
    told = [(call.op, call.phase) for call in result.calls[0] if call.phase]
    assert told == [("allreduce", "forward"), ("allreduce", "backward"), ("barrier", "step")]
