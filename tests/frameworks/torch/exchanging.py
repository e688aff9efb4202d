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


def asked(what, number, value, wait=PATIENT):
    """One decision of all ranks: [known, heard, values]."""
    timed(what, agreed, number, value, wait)


def agreed(number, value, wait):
    found = exchange.decide(number, ranks.world(), value, wait)
    exchange.let_go()
    return found and [found.known, found.heard, sorted(value for _, value in found.values)]


def sockets():
    """How many this process holds."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link))


def quickest(what, value, late=0.0):
    """Five decisions, of which the fastest tells: on a busy machine ranks come apart."""
    seconds, got = [], None
    for number in range(100, 105):
        dist.barrier()
        time.sleep(late)
        began = time.perf_counter()
        got = agreed(f"{what}{number}", value, PATIENT)
        seconds.append(time.perf_counter() - began)
    say(what, got=got, seconds=min(seconds), longest=max(seconds))


def everything(rank, world):
    before = sockets()
    asked("before", 0, f"d{rank}")
    asked("again", 1, [rank % 2, {"kinds": ["image"]}])
    exchange.leave("early", 1)
    exchange.let_go()
    say("left open", got=sockets() - before)
    dist.init_process_group("gloo")
    dist.barrier()
    theirs = sockets()
    say("on either side", got=exchange.left("early", 1))
    quickest("after", rank)
    quickest("skew", rank, late=0.8 if rank else 0.0)
    say("opened beside the group's", got=sockets() - theirs)
    dist.barrier()
    if rank == 0:
        asked("one-sided", 4, rank, wait=0.3)
    dist.barrier()
    if rank:
        asked("adopted", 4, rank)
    dist.barrier()
    if rank == 0:
        asked("never", 5, rank, wait=2.0)
    dist.barrier()
    one = torch.ones(1)
    dist.all_reduce(one)
    say("collective", got=one.item())
    dist.destroy_process_group()
    asked("at the end", 6, rank)


def restarted(rank, world):
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    asked(f"attempt {attempt}", 0, f"attempt {attempt}", wait=60)
    if attempt == 0:  # no process group: gloo's own keys of before can meet those after a restart
        time.sleep(1)
        os._exit(1 if rank == 0 else 0)


def moved(rank, world):
    """The program has a port of its own, which nobody serves yet."""
    os.environ["MASTER_PORT"] = os.environ["FREE_PORT"]
    asked("moved", 0, rank)
    asked("moved again", 0, rank)


def alone(rank, world):
    """Without torchrun's agent."""
    asked("before", 0, rank)
    dist.init_process_group("gloo")
    asked("after", 1, rank)
    dist.barrier()
    dist.destroy_process_group()


def filed(rank, world):
    """The process group's store is a file."""
    os.environ.pop("MASTER_ADDR", None)
    dist.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=world
    )
    asked("filed", 1, rank)
    dist.barrier()
    dist.destroy_process_group()


MODES = {
    "everything": everything, "restarted": restarted, "moved": moved, "alone": alone,
    "filed": filed,
}  # fmt: skip
MODES[sys.argv[1]](ranks.rank(), ranks.world())
