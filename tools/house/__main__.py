"""``python -m tools.house``: how a plain Trainer on a tiny LLaVA goes through our modules.

Distinct edges between our modules below `lifecycle.begin`, walks over the model's parameters, our
modules that are loaded when the framework's ``train`` is called, milliseconds until then and until
the first forward. Each of a model that is new, and of one whose observation lies in the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kit import envs, runs
from tools.house import figures

ENV, MODEL = "trl", "llava"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/data/house.json")
    parser.add_argument("--list", action="store_true", help="every edge and module")
    given = parser.parse_args()
    every = []
    with tempfile.TemporaryDirectory() as folder:
        for line in _measured(Path(folder)):
            told = json.loads(line)
            every.append(dict(told))
            if not given.list:
                told.pop("listed", None)
            print(json.dumps(told, indent=1), flush=True)
    if given.write:
        figures.keep(every)


def _measured(folder: Path) -> Iterator[str]:
    around = runs.variables(ENV, folder, guard=True)
    for name in ("HOME", "TMPDIR"):
        Path(around[name]).mkdir()
    for name in ("VLMGUARD_TEST_CAPTURE", "VLMGUARD_REPORT"):
        around.pop(name)
    around["PYTHONPATH"] = os.pathsep.join(
        map(str, (envs.ROOT, envs.ROOT / "plugins", around["PYTHONPATH"]))
    )
    model = str(runs.model_folder(ENV, MODEL))
    command = [envs.program(ENV), "-m", "tools.house.measure", model]
    with subprocess.Popen(command, env=around, stdout=subprocess.PIPE, text=True) as running:
        yield from running.stdout or ()


if __name__ == "__main__":
    main()
