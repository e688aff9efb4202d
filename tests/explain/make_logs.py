"""Causes the failures of `causes.py` and keeps what they print: ``python make_logs.py [NAME …]``.

Run it by an interpreter that has torch, transformers, DeepSpeed and peft. Paths and host names of
the machine are replaced. One log a cause, in logs/made/.
"""

# ruff: noqa: E501
from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from causes import CAUSES, VISION

FOLDER = Path(__file__).parent / "logs" / "made"
TIME = 120


def make(name: str, ranks: int, script: str) -> str:
    """The output of one failing run, standard output and error together."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        needs = "transformers" in script or "peft" in script
        path.write_text(VISION + script if needs else script, encoding="utf-8")
        command = [sys.executable, str(path)]
        if ranks > 1:
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command = [*launcher, f"--nproc_per_node={ranks}", str(path)]
        quiet = {"VLMGUARD": "off", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        local = {"GLOO_SOCKET_IFNAME": "lo", "DS_ACCELERATOR": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, env={**os.environ, **quiet, **local}, cwd=folder, timeout=TIME,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )
        return clean(done.stdout, folder)


def clean(text: str, folder: str) -> str:
    """``text`` without what only this machine has."""
    for path, shown in (
        (os.path.realpath(folder), "/job"),
        (folder, "/job"),
        (sysconfig.get_paths()["purelib"], "/env/lib/python3/site-packages"),
        (sys.prefix, "/env"),
        (sysconfig.get_paths()["stdlib"], "/usr/lib/python3"),
        (sys.base_prefix, "/usr"),
        (socket.gethostname(), "node-1"),
    ):
        text = text.replace(path, shown)
    return re.sub(r"/(?:tmp|root|work|home)/[\w./-]*", lambda m: "/tmp/" + m[0].rpartition("/")[2], text)


def main(names: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or CAUSES:
        _, ranks, _, script = CAUSES[name]
        try:
            text = make(name, ranks, script)
        except subprocess.TimeoutExpired:
            print(f"{name}: takes longer than {TIME} s, left out")
            continue
        (FOLDER / f"{name}.log").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text)} characters: {text.strip().splitlines()[-1][:100] if text.strip() else ''}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
