"""Real two-rank runs from one import: a process that forks the ranks of each job that it is told.

Run as a script in a framework's environment. Standard input: JSON lines, a list of modules to be
imported or a job; standard output: a line for each, what frameworks call of ours, or what became
of the ranks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path = [each for each in sys.path if each != str(Path(__file__).parent)]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks print
    from vlmguard.ranks import fork, ports

    for line in sys.stdin:
        job = json.loads(line)
        if isinstance(job, list):
            _preload(job)
            print(json.dumps(_wrappers()), file=answers, flush=True)
            continue
        job["port"], before = ports.free(), _processor()
        done = fork.run(lambda rank, job=job: work(job, rank), job.get("ranks", 2), "none",
                        job["limit"])  # fmt: skip
        told = {
            "verdict": done.verdict,
            "seconds": round(done.seconds, 1),
            "processor": round(_processor() - before, 1),
            "ranks": [
                {
                    "state": each.state,
                    "value": each.value,
                    "error": f"{each.error}: {each.message}" if each.failed else "",
                    "frames": list(each.frames)[-4:],
                    "output": each.output[-4000:],
                }
                for each in done.outcomes
            ],
        }
        print(json.dumps(told), file=answers, flush=True)


def _preload(names: list[str]) -> None:
    """Once, for all ranks to come. Nothing may start a thread: it would not survive a fork."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()  # else each rank's collector walks, and copies, all that was imported


def _wrappers() -> list[str]:
    """What frameworks call themselves, by the seams that are attached here."""
    seams = sys.modules.get("vlmguard.runtime.seams")
    wanted = getattr(seams, "_wanted", [])
    return [each.wrapper for each in wanted if isinstance(each.wrapper, str)]


def work(job: dict[str, Any], rank: int) -> dict[str, Any]:
    """One rank: as torchrun starts it, but for the import."""
    folder = Path(job["folder"])
    os.environ.update(job["environment"], MASTER_PORT=str(job["port"]),
                      VLMGUARD_TEST_REACHED=str(folder / f"reached{rank}"))  # fmt: skip
    os.chdir(folder / "work")
    import vlmguard_upset

    from tests.kit import launched

    if job["watch"]:
        vlmguard_upset.watch(ROOT, os.environ["VLMGUARD_TEST_REACHED"])
    if job["fault"]:
        vlmguard_upset.install(*job["fault"])
    if job["before"]:
        importlib.import_module("tools.faults.elsewhere").begin(job["before"], folder, rank)
    _limit_threads()
    known = set(sys.modules)
    try:
        if job["before"] == "a thread of its own":
            _in_a_thread(launched.program, *job["words"])
        else:
            launched.program(*job["words"])
    finally:
        sys.setprofile(None)
    if job["watch"]:
        new = (name for name in sys.modules if name not in known and "__" not in name)
        (folder / f"modules{rank}").write_text(json.dumps(list(new)))
    return trained(folder / "capture" / f"rank{rank}.pt")


def _in_a_thread(call: Callable[..., None], *args: Any) -> None:
    """As servers and notebooks run trainings; what it raises is raised here."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(call, *args).result()


def _limit_threads() -> None:
    import torch

    torch.set_num_threads(1)


def trained(file: Path) -> dict[str, Any]:
    """What a rank trained to, small enough to be compared and kept."""
    if not file.exists():
        return {}
    import torch

    kept = torch.load(file, weights_only=False)
    every = json.dumps(sorted(kept["digests"].items())).encode()
    moved = [name for name, start in kept["initial"].items()
             if not torch.equal(start, kept["final"][name])]  # fmt: skip
    return {
        "weights": hashlib.sha256(every).hexdigest()[:16],
        "losses": [float(loss).hex() for loss in kept["losses"]],
        "moved": len(moved),
        "wrapped": kept["wrapped"],
    }


def _processor() -> float:
    """Seconds of processor time of all ranks that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
