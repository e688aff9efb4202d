"""A user's loop around ColossalAI's booster, a rank of it; leaves behind what a Trainer's run does.

    python -m tools.faults.booster '{"models": FOLDER, "steps": ["image", "text"], …}'

The loop is the worker's of tests/frameworks/colossalai, where the keys are explained.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "frameworks" / "colossalai"))

import cpu
import torch.distributed as dist
import worker

if "colossalai.nn.optimizer" not in sys.modules:  # once: this is run in forks, too
    cpu.install()


def main() -> None:
    import colossalai
    import vlmguard_capture

    case = {**worker.DEFAULTS, **json.loads(sys.argv[1])}
    out: dict[str, Any] = {}
    colossalai.launch_from_torch(seed=0, verbose=False)
    worker.train(case, Path(case["models"]), out)
    rank = vlmguard_capture.Rank(
        rank=dist.get_rank(),
        world=dist.get_world_size(),
        wrapped=out["wrapped"],
        initial={name: out["before"][name] for name in out["trainable"]},
        final={name: out["after"][name] for name in out["trainable"]},
        losses=out["losses"],
        digests={name: vlmguard_capture.digest(each) for name, each in out["after"].items()},
    )
    vlmguard_capture.write(os.environ["VLMGUARD_TEST_CAPTURE"], rank)


if __name__ == "__main__":
    main()
