"""Other releases, laid over an environment by PYTHONPATH: one section of constraints.txt each.

A folder of a few packages costs seconds where an environment of its own costs minutes.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit import envs, runs


@functools.cache
def folder(name: str, under: str) -> Path:
    """The folder of the overlay, installed when it is missing or its pins are new.

    Args:
        name: a section of constraints.txt.
        under: the environment that it will be laid over.
    """
    pins = envs.sections()[name]

    def install(out: Path) -> None:
        command = [envs.program(under), "-m", "pip", "install", "-qq", "--no-deps"]
        command += ["--no-build-isolation", "--target", str(out), *pins]
        variables = envs._environment()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=variables
        )
        if done.returncode:
            shutil.rmtree(out, ignore_errors=True)
            sys.exit(f"cannot install {name}:\n{done.stderr[-4000:]}")

    return runs.built(name, "\n".join([*pins, *envs.sections()[under]]), install)
