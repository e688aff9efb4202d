"""One rank: exchanges in every situation, and prints what it got as JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist

from vlmguard.runtime import exchange, ranks

PATIENT = 100.0
"""Seconds: processes that start on a busy machine come apart by more than the usual two."""


def say(what, **values):
    line = {"what": what, "rank": ranks.rank(), **values}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def timed(what, call, *args, **kwargs):
    began = time.perf_counter()
    got = call(*args, **kwargs)
    say(what, got=got, seconds=time.perf_counter() - began)


def quickest(what, kind, value, late=0.0):
    """Five exchanges, of which the fastest tells: on a busy machine ranks come apart."""
    seconds, got = [], None
    for number in range(100, 105):
        dist.barrier()
        time.sleep(late)
        began = time.perf_counter()
        got = exchange.share(kind, number, value, wait=PATIENT)
        seconds.append(time.perf_counter() - began)
    say(what, got=got, seconds=min(seconds), longest=max(seconds))


def everything(rank, world):
    timed("before", exchange.share, "digest", 0, f"d{rank}", wait=PATIENT)
    timed("again", exchange.share, "digest", 1, [rank, {"kinds": ["image"]}], wait=PATIENT)
    dist.init_process_group("gloo")
    quickest("after", "digest", rank)
    quickest("skew", "skew", rank, late=0.8 if rank else 0.0)
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
    timed("at the end", exchange.share, "digest", 6, rank, wait=PATIENT)


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
    timed("after", exchange.share, "digest", 1, rank, wait=PATIENT)
    dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()


{"everything": everything, "restarted": restarted, "moved": moved, "alone": alone}[sys.argv[1]](
    ranks.rank(), ranks.world()
)
