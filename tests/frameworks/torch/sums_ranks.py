"""Trains a tiny two-tower model in two real gloo ranks, with stations reduce and reach on every
window, and prints what they say: one JSON line a cell.

    python tests/frameworks/torch/sums_ranks.py CELL…     CELL: strategy/plan

Imports everything once and forks the ranks of each cell.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.ledger.sums import WIDTH, Net
from vlmguard.ledger.account import Account
from vlmguard.ledger.judged_window import Judge
from vlmguard.ranks import run
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers.reach import Reach
from vlmguard_torch.ledger.readers.reduce import Reduce
from vlmguard_torch.ledger.watcher import account_of, as_json

STEPS = 3
ZERO: dict[str, dict[str, Any]] = {
    "zero0": {},
    "zero1": {"stage": 1},
    "zero2": {"stage": 2},
    "zero3": {"stage": 3},
}
HOW: dict[str, dict[str, Any]] = {
    "offload": {"zero": {"offload_optimizer": {"device": "cpu"}}},
    "overlap": {"zero": {"overlap_comm": True}},
    "roundrobin": {"zero": {"round_robin_gradients": True}},
    "bf16": {"bf16": {"enabled": True}},
    "fp16": {"fp16": {"enabled": True, "initial_scale_power": 8}},
    "sum32": {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    "clip": {"gradient_clipping": 0.01},
    "sendbf16": {"communication_data_type": "bf16"},
}


class Twice(Net):
    """Its tower runs twice in a forward, checkpointed with reentrance."""

    def forward(self, x=None, image=True):
        x = x.requires_grad_()
        seen = [checkpoint(self.visual, each, use_reentrant=True) for each in (x, x * 2)]
        return self.head(self.model(sum(seen))).logsumexp(-1).mean()


class Functional(Net):
    """Its head's weight is used without the head's forward."""

    def forward(self, x=None, image=True):
        hidden = self.model(self.visual(x))
        weight = self.head.weight
        weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
        return torch.nn.functional.linear(hidden, weight).logsumexp(-1).mean()


NETS = {"twice": Twice, "functional": Functional}


class Watched:
    """The readers of one model, and the pages that they fill."""

    def __init__(self, model: Any, optimizer: Any, account: Account, engine: Any = None) -> None:
        subject = Subject(model, optimizer, tuple(model.parameters()), account, engine=engine)
        self.account, self.pages = account, []
        self.readers = [Reduce(subject), Reach(subject)]
        model.register_forward_pre_hook(lambda *_: self.each("batch", {}))

    def each(self, what: str, *args: Any) -> None:
        for reader in self.readers:
            getattr(reader, what)(*args)

    def end(self, step: int, rank: int) -> None:
        page: dict[str, Any] = {"window": step, "step": step + 1, "rank": rank, "kinds": ["image"]}
        page["unread"] = {}
        for reader in self.readers:
            found = reader.page()
            if isinstance(found, str):
                page["unread"][reader.name] = found
            else:
                page[reader.name] = as_json(found)
        self.pages.append(page)
        self.each("close")

    def told(self) -> list[Any]:
        """What is said of each window, alike on all ranks."""
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, self.pages)
        judge = Judge(self.account, ("reduce", "reach"))
        return [
            [
                {
                    "station": each.station,
                    "state": each.state,
                    "reason": each.reason,
                    "off": each.shown.get("off"),
                    "clipped": each.shown.get("clipped"),
                    "tensors": each.shown.get("tensors"),
                    "said": [[e.code, e.level, e.why, e.what, e.since] for e in each.entries],
                }
                for each in judge.window(pages)
            ]
            for pages in zip(*every, strict=True)
        ]


def _data(model: Any, rank: int) -> Any:
    return torch.randn(2, WIDTH, dtype=next(model.parameters()).dtype)


def _zero(strategy: str, plan: str, rank: int, net: type[Net]) -> Any:
    name, *more = strategy.split("+")
    parts = 2 if plan == "accumulated" else 1
    zero = {**ZERO[name], "reduce_bucket_size": 500} if ZERO[name] else {"stage": 0}
    if name == "zero3":
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 1000}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": parts,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": 0.0,
    }
    for each in more:
        how = dict(HOW[each])
        zero |= how.pop("zero", {})
        config |= how
    config["zero_optimization"] = zero
    model = net()
    plain = torch.optim.AdamW(model.parameters(), lr=1e-2)
    account = account_of(model, plain, 2, name)
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=plain, config=config)
    watched = Watched(model, optimizer, account, engine)
    torch.manual_seed(rank + 1)
    for step in range(STEPS):
        watched.each("open")
        for part in range(parts):
            engine.backward(engine(x=_data(model, rank), image=plan != "stale" or step == 0))
            if part == parts - 1:
                watched.each("before")
            engine.step()
        watched.each("after")
        watched.end(step, rank)
    return watched.told()


def _ddp(strategy: str, plan: str, rank: int, net: type[Net]) -> Any:
    _, *more = strategy.split("+")
    model = net().to(torch.bfloat16 if "bf16" in more else torch.float32)
    ddp = DistributedDataParallel(
        model, find_unused_parameters=plan == "mixed", gradient_as_bucket_view="view" in more
    )
    if "compressed" in more:
        ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watched = Watched(model, optimizer, account_of(model, optimizer, 2, "ddp"))
    torch.manual_seed(rank + 1)
    forward: Any = model if plan == "past" else ddp
    for step in range(STEPS):
        watched.each("open")
        if plan != "uncleared":
            optimizer.zero_grad(set_to_none="zeros" not in more)
        PLANS.get(plan, _plain)(ddp, forward, model, rank)
        watched.each("before")
        optimizer.step()
        watched.each("after")
        watched.end(step, rank)
    return watched.told()


def _plain(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    forward(x=_data(model, rank)).backward()


def _synced(*whether: bool) -> Callable[..., None]:
    def steps(ddp: Any, forward: Any, model: Any, rank: int) -> None:
        for each in whether:
            with contextlib.nullcontext() if each else ddp.no_sync():
                _plain(ddp, forward, model, rank)

    return steps


def _mixed(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    forward(x=_data(model, rank), image=rank == 0).backward()


def _drift(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    """The tower's gradients of rank 1 are not sent: as if its hooks were lost."""
    _plain(ddp, forward, model, rank)
    for p in model.visual.parameters():
        p.grad.copy_(p.grad * (1 + rank))


def _clipped(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    (forward(x=_data(model, rank)) * 100).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def _summed(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    _plain(ddp, forward, model, rank)
    for p in model.parameters():
        p.grad.mul_(2)


def _lost(ddp: Any, forward: Any, model: Any, rank: int) -> None:
    """Averaged by hand, without rank 1."""
    model(x=_data(model, rank)).backward()
    for p in model.parameters():
        p.grad.mul_(1 - rank)
        dist.all_reduce(p.grad)
        p.grad.div_(2)


PLANS: dict[str, Callable[..., None]] = {
    "accumulated": _synced(False, True),
    "synced": _synced(True, True, True),
    "unsynced at the end": _synced(True, False),
    "unsynced": _synced(False, False),
    "mixed": _mixed,
    "drift": _drift,
    "clipped": _clipped,
    "summed": _summed,
    "lost": _lost,
}


def _fsdp2(strategy: str, plan: str, rank: int, net: type[Net]) -> Any:
    _, *more = strategy.split("+")
    model = net()
    policy = MixedPrecisionPolicy(torch.bfloat16) if "bf16" in more else MixedPrecisionPolicy()
    if "mixed" in more:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for each in (model.visual, model.model):
        fully_shard(each, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watched = Watched(model, optimizer, account_of(model, optimizer, 2, "fsdp2"))
    torch.manual_seed(rank + 1)
    parts = 2 if plan in ("accumulated", "synced") else 1
    for step in range(STEPS):
        watched.each("open")
        if plan != "uncleared":
            optimizer.zero_grad(set_to_none="zeros" not in more)
        for part in range(parts):
            model.set_requires_gradient_sync(plan == "synced" or part == parts - 1)
            model(x=torch.randn(2, WIDTH), image=True).backward()
        if plan == "clipped":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        if plan == "summed":
            for p in model.parameters():
                p.grad.mul_(2)
        watched.each("before")
        optimizer.step()
        watched.each("after")
        watched.end(step, rank)
    return watched.told()


def work(text: str, rank: int) -> Any:
    """One rank of one cell."""
    strategy, _, plan = text.partition("/")
    torch.manual_seed(0)
    train = _zero if strategy.startswith("zero") else _ddp if strategy[:3] == "ddp" else _fsdp2
    return train(strategy, plan, rank, NETS.get(plan, Net))


def main() -> None:
    """One line a cell."""
    torch.set_num_threads(1)
    # Would compile a shared-memory kernel in every rank behind a file lock: looks like a hang.
    vars(sys.modules["deepspeed.comm.torch"])["build_shm_op"] = lambda: None
    for text in sys.argv[1:]:
        ended = run(lambda rank, text=text: work(text, rank), 2, "gloo", 60)
        first = ended.outcomes[0]
        told = first.value if first.state == "returned" else f"{first.error}: {first.message}"
        print(json.dumps({"cell": text, "told": told}), flush=True)


if __name__ == "__main__":
    main()
