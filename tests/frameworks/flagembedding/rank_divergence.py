"""Many one-process trainings from one import of FlagEmbedding, each in a fork of its own.

Run as a script: a JSON list of {"folder", "arguments", "environment"}; what each child printed and
how it ended go into its folder, in the words of `launch.Outcome`.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from vlmguard.ranks import ports


def main(jobs: list[dict[str, Any]]) -> None:
    """Import what all jobs need, then run them one after the other."""
    for name in {job["arguments"][1] for job in jobs}:
        importlib.import_module(f"{name}.runner")
    for job in jobs:
        child = os.fork()
        if child == 0:
            os._exit(_train(job))
        _, status = os.waitpid(child, 0)
        Path(job["folder"], "exit").write_text(str(os.waitstatus_to_exitcode(status)))


def _train(job: dict[str, Any]) -> int:
    folder = Path(job["folder"])
    with (folder / "output").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(folder)
    os.environ.update(job["environment"], MASTER_PORT=str(ports.free()))
    os.environ["VLMGUARD_TEST_CAPTURE"] = str(folder / "capture")
    os.environ["VLMGUARD_REPORT"] = str(folder / "report" / "findings.jsonl")
    if os.environ.get("VLMGUARD_TEST_FAULT"):
        import vlmguard_fault

        vlmguard_fault.install()
    sys.argv[1:] = job["arguments"][2:]
    try:
        runpy.run_module(job["arguments"][1], run_name="__main__", alter_sys=True)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
