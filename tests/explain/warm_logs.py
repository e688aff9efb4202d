"""Causes the failures of `causes_more.py` in one environment: ``PYTHON warm_logs.py ENVIRONMENT [NAME …]``.

The interpreter imports the frameworks once and forks the ranks of each cause, so that fifty failures
cost little more than one. Each rank's output goes to one file, interleaved as it comes.
"""

# ruff: noqa: E501
from __future__ import annotations

import importlib
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from make_logs import VISION, clean

from vlmguard.ranks import ports

FOLDER = Path(__file__).parent / "logs" / "more"
KEPT: dict[str, object] = {}
TIME = 90
HEAVY = ("torch", "torch.distributed", "transformers", "transformers.trainer", "peft", "accelerate", "deepspeed", "datasets", "trl", "PIL.Image", "safetensors.torch")


def warm() -> None:
    """Import what causes need, where the environment has it."""
    os.environ.update(VLMGUARD="off", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo", DS_ACCELERATOR="cpu", TOKENIZERS_PARALLELISM="false", PYTHONDONTWRITEBYTECODE="1")
    exec(VISION, KEPT)
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"not warm: {name}: {type(error).__name__}: {str(error)[:80]}")


def rank_main(path: Path, rank: int, ranks: int, port: int, out: int) -> None:
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.chdir(path.parent)
    sys.argv, sys.path[0] = [str(path)], str(path.parent)
    if ranks > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    code = 0
    try:
        import linecache

        text = path.read_text()
        linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def make(script: str, ranks: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(script, encoding="utf-8")
        out = os.open(Path(folder) / "log", os.O_CREAT | os.O_RDWR | os.O_APPEND)
        port, pids = ports.free(), []
        for rank in range(ranks):
            if (pid := os.fork()) == 0:
                os.setpgid(0, 0)
                rank_main(path, rank, ranks, port, out)
            pids.append(pid)
        until = time.monotonic() + TIME
        failed = None
        while pids:
            done, status = os.waitpid(-1, os.WNOHANG)
            if done in pids:
                pids.remove(done)
                failed = failed or (time.monotonic() if status else None)
            if not done:
                time.sleep(0.05)
            late = time.monotonic() > until or (failed and time.monotonic() > failed + 15)
            if late:
                for pid in pids:
                    os.killpg(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                break
        text = (Path(folder) / "log").read_text(errors="replace")
        os.close(out)
        return re.sub(r"/\S*/causes_more\.py", "/job/train.py", clean(text, folder))


def main(environment: str, names: list[str]) -> int:
    from causes_more import MORE

    warm()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (where, _, ranks, _, script) in MORE.items():
        if where != environment or (names and name not in names):
            continue
        random.seed(0)
        text = make(script, ranks)
        (FOLDER / f"{name}.log").write_text(text, encoding="utf-8")
        last = text.strip().splitlines()[-1][:110] if text.strip() else "NOTHING"
        print(f"{name}: {len(text)}: {last}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
