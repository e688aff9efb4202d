"""A training script or module in this process, as torchrun starts it in a rank."""

from __future__ import annotations

import runpy
import sys


def program(name: str, *words: str) -> None:
    """Run what stands behind torchrun's own flags: a script's or ``-m`` and a module's words.

    Raises:
        RuntimeError: it ended with another exit status than 0.
    """
    try:
        if name == "-m":
            sys.argv[:] = words
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = [name, *words]
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"exit {end.code}") from end
