"""One rank: exchanges in every situation, and prints what it got as JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist

from vlmguard.runtime import exchange, ranks


def say(what, **values):
    line = {"what": what, "rank": ranks.rank(), **values}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def timed(what, call, *args, **kwargs):
    began = time.perf_counter()
    got = call(*args, **kwargs)
    say(what, got=got, seconds=time.perf_counter() - began)


def everything(rank, world):
    others = [each for each in range(world) if each]
    timed("before", exchange.share, "digest", 0, f"d{rank}")
    timed("again", exchange.share, "digest", 1, [rank, {"kinds": ["image"]}])
    dist.init_process_group("gloo")
    dist.barrier()
    timed("after", exchange.share, "digest", 2, rank)
    dist.barrier()
    if rank in others:
        time.sleep(0.8)
    timed("skew", exchange.share, "skew", 3, rank)
    dist.barrier()
    if rank == 0:
        timed("one-sided", exchange.share, "early", 4, rank, wait=0.3)
    dist.barrier()
    if rank:
        exchange.post("early", 4, rank)
    dist.barrier()
    timed("later", exchange.look, "early", 4)
    dist.barrier()
    if rank == 0:
        timed("never", exchange.share, "never", 5, rank)
    dist.barrier()
    one = torch.ones(1)
    dist.all_reduce(one)
    say("collective", got=one.item())
    dist.destroy_process_group()
    timed("at the end", exchange.share, "digest", 6, rank)


def restarted(rank, world):
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    timed(f"found in attempt {attempt}", exchange.look, "digest", 0)
    timed(f"attempt {attempt}", exchange.share, "digest", 0, f"attempt {attempt}", wait=60)
    if attempt == 0:  # no process group: gloo's own keys of before can meet those after a restart
        time.sleep(1)
        os._exit(1 if rank == 0 else 0)


def moved(rank, world):
    """The program has a port of its own, which nobody serves yet."""
    os.environ["MASTER_PORT"] = os.environ["FREE_PORT"]
    timed("moved", exchange.share, "digest", 0, rank)
    timed("moved again", exchange.share, "digest", 0, rank)


def alone(rank, world):
    """Without torchrun's agent."""
    timed("before", exchange.share, "digest", 0, rank)
    dist.init_process_group("gloo")
    timed("after", exchange.share, "digest", 1, rank)
    dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()


{"everything": everything, "restarted": restarted, "moved": moved, "alone": alone}[sys.argv[1]](
    ranks.rank(), ranks.world()
)
