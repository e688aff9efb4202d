"""Imports a framework once, then forks the ranks of each drawn run that it is told.

    python -m tools.ordinary.worker off|on ENVIRONMENT

Standard input: a line of JSON a run (`draw`, `folder`, `limit`); standard output: a line a run, how
it ended and what each rank's account says. With "off" it is as if vlmguard was not installed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import logging
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from tools.ordinary import heard

MODULES = {
    "trl": (
        "deepspeed peft accelerate tools.ordinary.trainers tools.ordinary.loops "
        "tools.ordinary.commands"
    ).split(),
    "swift": ("tools.ordinary.commands",),
    "llamafactory": ("tools.ordinary.commands",),
    "colossalai": ("tools.ordinary.gemini", "colossalai", "colossalai.booster",
                   "colossalai.booster.plugin"),
    "flagembedding": ("peft", "deepspeed", "FlagEmbedding", "tools.ordinary.commands"),
}
"""What the runs of an environment need, beside what the kit's warm process imports."""
PROGRAMS = {
    "loop": "loops", "gemini": "gemini", "trl": "commands", "swift": "commands",
    "llamafactory": "commands", "flagembedding": "commands",
}  # fmt: skip
"""The module that does a program's work, by its first word; else `trainers`."""
STILL, WAITS = 15.0, 200.0
"""Seconds without any processor time after which ranks count as hung, on a busy machine; and where
they wait for a turn."""
MOST = 20_000
"""Characters of a rank's output that are kept."""
OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "MASTER_ADDR",
             "MASTER_PORT", "TORCH_DIST_INIT_BARRIER")  # fmt: skip


def main() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the campaign
    guard, environment = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if guard == "off":
        sys.meta_path[:] = [f for f in sys.meta_path if type(f).__module__ != "vlmguard._bootstrap"]
    _load(environment)
    print(json.dumps({"ready": guard}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _load(environment: str) -> None:
    import torch

    from tests.kit.programs import warm

    torch.set_num_threads(1)  # its threads do not survive a fork
    for name in MODULES[environment]:
        importlib.import_module(name)
    if environment in warm.IMPORTS:
        warm.load(environment)
    import transformers

    transformers.logging.set_verbosity_error()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    from tools.ordinary import draws
    from vlmguard.ranks import fork

    draw = draws.read(job["draw"])
    fork.STILL = fork.STILL_APART = WAITS if job.get("turns") else STILL
    return forked(lambda rank, port: _rank(draw, job, rank, port), draw.world, job["limit"])


def forked(work: Callable[[int, int], Any], world: int, limit: float) -> dict[str, Any]:
    """How ``work(rank, port)`` ended in each rank, as JSON; ``port`` is their store's."""
    from vlmguard.ranks import fork, ports

    port = ports.free()
    keeper = _store(port) if world > 1 else None
    try:
        done = fork.run(lambda rank: work(rank, port), world, "none", limit)
    finally:
        if keeper:
            os.kill(keeper, signal.SIGKILL)
            os.waitpid(keeper, 0)
    return {
        "verdict": done.verdict,
        "seconds": round(done.seconds, 2),
        "late": done.late,
        "ranks": [
            {
                "state": each.state,
                "account": each.value,
                "error": f"{each.error}: {each.message}" if each.failed else "",
                "frames": list(each.frames)[-8:],
                "output": _end(each.output),
            }
            for each in done.outcomes
        ],
    }


def _end(output: str) -> str:
    """Its last lines, whole ones."""
    return output if len(output) <= MOST else output[-MOST:].partition("\n")[2]


def _rank(draw: Any, job: dict[str, Any], rank: int, port: int) -> Any:
    """A rank's work, in an environment as torchrun makes it; one process alone has none of it."""
    os.chdir(job["folder"])
    told = {"VLMGUARD_REPORT": f"{job['folder']}/findings.jsonl", "HOME": job["folder"]}
    if job.get("turns"):
        told["ORDINARY_TURNS"] = job["turns"]
    os.environ.update(told)
    if draw.world == 1:
        for name in OF_A_RANK:
            os.environ.pop(name, None)
    else:
        os.environ.update(
            MASTER_PORT=str(port), ROLE_RANK=str(rank), GROUP_RANK="0", TORCHELASTIC_RUN_ID="none",
            ROLE_WORLD_SIZE=str(draw.world), TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
        )  # fmt: skip
    if job.get("listen"):
        heard.listen()
    told = (job["command"],) if job.get("command") else ()
    return work(draw)(draw, f"{job['folder']}/out", *told)


def work(draw: Any) -> Callable[..., Any]:
    """The function that trains a draw."""
    name = PROGRAMS.get(draw.program.split()[0], "trainers")
    found: Callable[..., Any] = importlib.import_module(f"tools.ordinary.{name}").work
    return found


def _store(port: int) -> int:
    """A process that keeps the rendezvous' store, as torchrun's agent does; its id."""
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        return pid
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        import torch.distributed as dist

        kept = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        os.write(writing, b"1")
        while kept:
            time.sleep(3600)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
