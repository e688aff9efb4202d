"""Other releases, laid over the environment by PYTHONPATH: one section of constraints.txt each.

A folder of a few packages costs seconds where an environment of its own costs minutes.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit import envs
from tests.kit import swift as kit

UNDER = "flagembedding"


@functools.cache
def folder(name: str) -> Path:
    """The folder of the overlay, installed when it is missing or its pins are new."""
    pins = envs.sections()[name]

    def install(out: Path) -> None:
        command = [envs.program(UNDER), "-m", "pip", "install", "-qq", "--no-deps"]
        command += ["--no-build-isolation", "--target", str(out), *pins]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(out, ignore_errors=True)
            sys.exit(f"cannot install {name}:\n{done.stderr[-4000:]}")

    return kit._built(name, "\n".join([*pins, *envs.sections()[UNDER]]), install)
