"""Runs in a release set's environment: imports everything once, then one case a line.

stdin: {"case": …, "seed": 0, "engine": "gloo"} a line. Replies go to the file descriptor in the
first argument: first {"ready": releases}, then a verdict a case. stdin's end ends it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any


def main() -> None:
    """Serve cases until stdin ends."""
    replies = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    replies.write(json.dumps({"ready": prepare()}) + "\n")
    from tools.lab.cases import Case
    from tools.lab.measure import Bench

    benches: dict[str, Bench] = {}
    for line in sys.stdin:
        task = json.loads(line)
        engine = task.get("engine", "gloo")
        bench = benches.setdefault(engine, Bench(engine))
        try:
            told: dict[str, Any] = asdict(bench.measure(Case(**task["case"]), task["seed"]))
        except Exception as error:  # a fault of the lab or the reference is not a verdict
            told = {"fault": f"{type(error).__name__}: {error}"[:300]}
        replies.write(json.dumps(told) + "\n")


def prepare() -> dict[str, str]:
    """Import all that ranks need, before any is forked; package → release."""
    import torch

    torch.set_num_threads(1)
    import deepspeed  # type: ignore[import-not-found]
    import numpy
    import peft  # type: ignore[import-not-found]
    import transformers  # type: ignore[import-not-found]

    # It would compile a kernel in every rank behind a file lock, which looks like a hang.
    # By module name: the attribute deepspeed.comm.torch is torch itself.
    vars(sys.modules["deepspeed.comm.torch"])["build_shm_op"] = lambda: None
    import vlmguard.ranks.gloo
    import vlmguard.ranks.referee  # noqa: F401

    transformers.logging.set_verbosity_error()
    warm()
    # Ranks collect garbage often; without this each would walk all that was imported here.
    gc.collect()
    gc.freeze()
    found = {"torch": torch, "deepspeed": deepspeed, "transformers": transformers, "peft": peft}
    releases = {name: str(module.__version__).split("+")[0] for name, module in found.items()}
    return {**releases, "numpy": numpy.__version__}


def warm() -> None:
    """Import what ranks import while they run (torch's compiler, mostly): once, not in each."""
    from tools.lab import step
    from tools.lab.cases import Case
    from vlmguard.ranks import run

    def modules(strategy: str, model: str) -> list[str]:
        before = set(sys.modules)
        case = Case(strategy, "none", "lora", model, "images", 1)
        with contextlib.suppress(Exception):
            step.distributed(case, int(os.environ["RANK"]), 0)
        return sorted(set(sys.modules) - before)

    for strategy, model in (("ddp", "qwen2_vl"), ("fsdp2", "two_tower"), ("zero3", "two_tower")):
        ended = run(lambda _, s=strategy, m=model: modules(s, m), 2, "gloo").outcomes[0]  # type: ignore[misc]
        for name in ended.value or ():
            with contextlib.suppress(Exception):
                importlib.import_module(name)


if __name__ == "__main__":
    main()
