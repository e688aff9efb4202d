"""Imports a framework once, and forks the ranks of every command that it is sent.

    python warm.py SOCKET ENVIRONMENT

A job is one line of JSON: words, world, port, folder, environment, timeout, quiet; so is the
answer. The ranks run what the words name, a script or `-m` and a module, as torchrun would start
them: what is left out is the launcher and what each rank's imports cost. It ends when its socket's
folder is gone, or when it was asked nothing for a while.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from pace import Pace

sys.path.pop(0)

IDLE = 400.0
GRACE = 3.0
"""Seconds for the other ranks to fail by themselves once one has."""
IMPORTS = {
    "swift": (
        "deepspeed peft trl swift.pipelines swift.trainers swift.rlhf_trainers "
        "swift.trainers.trainer_factory swift.trainers.seq2seq_trainer swift.trainers.trainers "
        "swift.rlhf_trainers.dpo_trainer swift.rlhf_trainers.grpo_trainer"
    ),
    "trl": (
        "deepspeed peft accelerate transformers.trainer trl.scripts.sft trl.scripts.dpo "
        "trl.scripts.kto trl.scripts.grpo trl.scripts.reward trl.trainer.sft_trainer "
        "trl.trainer.dpo_trainer trl.trainer.grpo_trainer trl.trainer.reward_trainer"
    ),
    "llamafactory": (
        "deepspeed peft llamafactory.train.tuner llamafactory.train.sft.workflow "
        "llamafactory.train.dpo.workflow"
    ),
}
"""Of each environment, what any of its ranks will import."""
CLASSES = (
    "clip gemma gemma3 idefics3 internvl llama llava llava_next llava_onevision minicpmv4_6 mllama "
    "paligemma qwen2 qwen2_5_vl qwen2_vl qwen3_5 qwen3_vl siglip"
).split()


def load(environment: str) -> None:
    """All that any of the ranks will import, as far as these releases have it."""
    models = (f"transformers.models.{one}.modeling_{one}" for one in CLASSES)
    for name in (*IMPORTS[environment].split(), *models):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def serve(path: Path, environment: str) -> None:
    """Take jobs, each in a process of its own, until nobody asks any more."""
    load(environment)
    gc.freeze()  # a rank that collects garbage would copy every page of these imports
    door = socket.socket(socket.AF_UNIX)
    half = path.with_suffix(".half")
    door.bind(str(half))
    door.listen(16)
    half.rename(path)
    door.settimeout(1.0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    asked = time.monotonic()
    while time.monotonic() - asked < IDLE and path.exists():
        with contextlib.suppress(TimeoutError):
            caller, _ = door.accept()
            if os.fork() == 0:
                _in_child(caller)
            caller.close()
            asked = time.monotonic()
    path.unlink(missing_ok=True)


def _in_child(caller: socket.socket) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if line := caller.makefile().readline():  # else it was asked whether it is there
            answer = Job(json.loads(line), caller).run()
            caller.sendall(json.dumps(answer).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class Job:
    """One command in its ranks, watched as tests/kit/processes.py watches a real one."""

    def __init__(self, job: dict[str, Any], caller: socket.socket) -> None:
        self.job, self.caller = job, caller
        self.started = time.monotonic()
        self.pace = Pace()
        self.heard = 0.0
        """On that clock: a rank that a busy machine starves is not a rank that hangs."""
        self.lines: list[tuple[float, str]] = []

    def run(self) -> dict[str, Any]:
        """How it ended: returncode, seconds, hung, survivors, lines, progress."""
        pipes, left = [], {}
        for rank in range(self.job["world"]):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    self._rank(rank, writing)
                finally:
                    os._exit(9)
            os.close(writing)
            pipes.append(reading)
            left[pid] = rank
        import torch.distributed as dist

        store = dist.TCPStore("127.0.0.1", self.job["port"], is_master=True, wait_for_workers=False)
        readers = [threading.Thread(target=self._listen, args=(each,)) for each in pipes]
        for reader in readers:
            reader.start()
        codes, hung = self._wait(left)
        for reader in readers:
            reader.join(5.0)
        del store
        return {
            "returncode": -15 if hung else int(any(codes)),
            "seconds": time.monotonic() - self.started,
            "hung": hung,
            "survivors": [],
            "lines": self.lines,
            "progress": self.pace.seconds,
        }

    def _wait(self, left: dict[int, int]) -> tuple[list[int], bool]:
        codes: list[int] = []
        failed, hung = 0.0, False
        while left:
            for pid in list(left):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    del left[pid]
                    codes.append(os.waitstatus_to_exitcode(status))
                    failed = failed or (time.monotonic() if codes[-1] else 0.0)
            now = self.pace.look(left)
            slow = time.monotonic() - self.started > self.job["timeout"]
            late = slow or now - self.heard > self.job["quiet"]
            hung = hung or (late and not failed and bool(left))
            if hung or self._given_up() or (failed and time.monotonic() - failed > GRACE):
                for pid in left:
                    _kill(pid)
            time.sleep(0.05)
        return codes, hung

    def _given_up(self) -> bool:
        """Whether whoever asked is gone."""
        try:
            return self.caller.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False

    def _listen(self, pipe: int) -> None:
        with os.fdopen(pipe, errors="replace") as text:
            for line in text:
                self.heard = self.pace.seconds
                self.lines.append((self.heard, line.rstrip("\n")))

    def _rank(self, rank: int, out: int) -> None:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(out, 2)
        world = str(self.job["world"])
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        os.environ.clear()  # of what the run had that this process was started for
        os.environ.update(kept | self.job["environment"])
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), ROLE_RANK=str(rank), GROUP_RANK="0",
            WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, ROLE_WORLD_SIZE=world,
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.job["port"]), TORCHELASTIC_RUN_ID="none",
            TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",
            TORCHELASTIC_MAX_RESTARTS="0",
        )  # fmt: skip
        _as_started()
        os.chdir(self.job["folder"])
        code = 0
        try:
            _program(*self.job["words"])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _program(program: str, *words: str) -> None:
    """What stands behind torchrun's own flags."""
    if program == "-m":
        sys.argv = list(words)
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *words]
        runpy.run_path(program, run_name="__main__")


def _as_started() -> None:
    """What a fresh process reads from its environment while it imports."""
    import torch.distributed as dist

    dist.set_debug_level_from_env()
    if os.environ.get("VLMGUARD_TEST_FAULT"):
        import vlmguard_fault

        vlmguard_fault.install()


def _kill(pid: int) -> None:
    """A rank and its data loaders; its session may not be its own yet."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
