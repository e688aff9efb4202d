"""Imports everything once, then forks the ranks of each run that it is told.

    python -m tools.ledger.worker

Standard input: a line of JSON a run; standard output: a line a run, how it ended and what its ranks
came to.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from tools.ordinary import worker as ordinary


def main() -> None:
    """Serve until standard input ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the campaign
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if os.environ.get("VLMGUARD") == "off":
        sys.meta_path[:] = [f for f in sys.meta_path if type(f).__module__ != "vlmguard._bootstrap"]
    ordinary._load("trl")
    from tools.ledger import catalogue, healthy

    catalogue.load()
    healthy.load()
    print(json.dumps(_known(catalogue, healthy)), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _known(catalogue: Any, healthy: Any) -> dict[str, Any]:
    """All that can be asked for, by name."""
    errors = {
        name: {"kind": each.kind, "title": each.title, "codes": each.codes, "world": each.world,
               "stages": each.stages, "seen": each.seen}
        for name, each in catalogue.INJECTIONS.items()
    }  # fmt: skip
    return {
        "injection": errors,
        "healthy": {n: {"world": v.world} for n, v in healthy.VARIANTS.items()},
    }


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    return ordinary.forked(lambda rank, port: _rank(job, rank, port), job["world"], job["limit"])


def _rank(job: dict[str, Any], rank: int, port: int) -> Any:
    os.makedirs(job["folder"], exist_ok=True)
    os.chdir(job["folder"])
    report = f"{job['folder']}/findings.jsonl"
    os.environ.update(
        {"VLMGUARD_REPORT": report, "HOME": job["folder"], **job.get("environment", {})}
    )
    if job["world"] == 1:
        for name in ordinary.OF_A_RANK:
            os.environ.pop(name, None)
    else:
        os.environ.update(
            MASTER_PORT=str(port), ROLE_RANK=str(rank), GROUP_RANK="0", TORCHELASTIC_RUN_ID="none",
            ROLE_WORLD_SIZE=str(job["world"]), TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
        )  # fmt: skip
    return _work(job, rank)


def _work(job: dict[str, Any], rank: int) -> Any:
    """Train; then, of a run with an error in it, how far its updates are from the healthy one's."""
    from tools.ledger import catalogue, healthy, training, watching

    run = training.Run(rank, job["world"], job["folder"], job["faulty"], job["stage"])
    if job["what"] == "injection":
        catalogue.INJECTIONS[job["name"]].prepare(run)
    else:
        healthy.VARIANTS[job["name"]].prepare(run)
    found = training.train(run)
    apart = watching.apart(job["folder"], job["other"], rank) if job.get("other") else None
    return {**found, "apart": apart}


if __name__ == "__main__":
    main()
