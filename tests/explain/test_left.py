"""Logs of which little is left: cut, wrapped, pasted, or ended before anything ran; and what is like a failure."""

# ruff: noqa: E501
from __future__ import annotations

import os

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain import sources
from vlmguard.explain.command import explain, main

OOM = compose.traced("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.", 1)
OWN = compose.traced("RuntimeError: shape '[2, 3]' is invalid for input of size 7", None)
STEPS = "".join(f"{{'loss': 1.{i}, 'grad_norm': 0.{i}, 'learning_rate': 1e-05, 'epoch': 0.{i}}}\n" for i in range(1, 6))
BARS = "".join(f" 3%|▎         | {i}/400 [00:18<09:39,  1.50s/it]\n" for i in range(10, 16))
NCCL = "[rank3]:[E816 00:34:01.336571 ProcessGroupNCCL.cpp:629] "
WAIT = NCCL + "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=3106, NumelOut=3106, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
SOME = NCCL + "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
LOGGED = "2026-01-12 09:14:14,879 - ERROR - train - {}\n"
GONE = compose.traced("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4242", 0)
FIRST = "============\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-01-12_09:14:14\n  host      : h\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 42)\n============\n"


def wrapped(log: str, columns: int = 80) -> str:
    return "".join(f"{line[n : n + columns]}\n" for line in log.splitlines() for n in range(0, max(len(line), 1), columns))


def before_each(mark: str, log: str) -> str:
    return "".join(f"{mark}{line}\n" for line in log.splitlines())


SHAPES = {
    "the script is not there": ("bash: ./train.sh: No such file or directory\n", "VG590", None),
    "zsh without the command": ("zsh: command not found: swift\n", "VG590", None),
    "any command as the last line": ("job.sh: line 12: my_trainer: command not found\n", "VG590", None),
    "a command that was missed, and the run goes on": ("bash: nvidia-smi: command not found\n" + BARS, "unfinished", None),
    "a listing's file that is not there": ("ls: cannot access 'x': No such file or directory\n", "unfinished", None),
    "a wrapped record of NCCL's alone": (wrapped(WAIT), "VG505", None),
    "a wrapped record beside long lines": ("x" * 500 + "\n" + wrapped("world_size: 4\n" + WAIT + WAIT.replace("ank3", "ank2").replace("ank 3", "ank 2")), "VG505", ()),  # both wait
    "some operations have failed": (SOME, "VG505", None),
    "the same, wrapped": (wrapped(SOME), "VG505", None),
    "a watchdog's line that is cut": (NCCL + "[Rank 3] Watchdog caught collective\n", "VG505", None),
    "pasted with <br />": (OOM.replace("\n", "<br />") + "\n", "VG512", (1,)),
    "pasted with <br> at each end": (OOM.replace("\n", "<br>\n"), "VG512", (1,)),
    "in a script's comments": (before_each("# ", OOM), "VG512", (1,)),
    "in a mail": (before_each("> > ", OOM), "VG512", (1,)),
    "in bold": ("".join(f"**{line}**\n" for line in OOM.splitlines()), "VG512", (1,)),
    "a logger's errors alone": (LOGGED.format("the flux failed") + LOGGED.format("Job failed"), "unknown", None),
    "a logger's error while it runs": (BARS + LOGGED.format("the probe failed"), "unfinished", None),
    "a logger's error that is tried again": (LOGGED.format("request failed; will retry"), "unfinished", None),
    "words for an end right behind an exception": (STEPS + OOM + "Training complete!\n", "VG512", (1,)),
    "the same of an unknown one": (STEPS + OWN + "Training complete\n", "unknown", None),
    "steps between": (OWN + BARS + "Training complete\n", "finished", None),
    "a Trainer's figures behind it": (OWN + STEPS + "{'train_runtime': 12.5}\n", "finished", None),
    "every task of a step killed": ("srun: error: node1: tasks 0-3: Killed\nsrun: error: node2: tasks 4-7: Killed\n", "VG569", None),
    "srun ended the step itself": ("srun: forcing job termination\nsrun: error: node1: task 3: Killed\n", "VG569", None),
    "tasks killed, and the kernel says why": ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\nsrun: error: node1: task 3: Killed\nsrun: error: node2: task 4: Killed\n", "VG532", None),
    "a lock that is not there": (compose.traced("FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.cache/x/a.lock'", 0), "VG567", (0,)),
    "a hub's storage is full": (compose.traced("huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: Private repository storage limit reached, please upgrade your plan.", 0), "VG535", (0,)),
    "an empty weight under ZeRO-3": ("[config.py:1007:print]   zero_optimization_stage ...... 3\n" + compose.traced("IndexError: index 5 is out of bounds for dimension 0 with size 0", 0), "VG523", (0,)),
    "an empty list without it": (compose.traced("IndexError: index 5 is out of bounds for dimension 0 with size 0", 0), "unknown", (0,)),
    "YAML whose context speaks of something else": (compose.traced('yaml.scanner.ScannerError: mapping values are not allowed here\n  in "a.yaml", line 41, column 24:\n    resume_from_checkpoint: null: x', None), "VG553", None),
    "a card that --include names": (compose.traced("ValueError: No slot '9' specified on host 'localhost'", None), "VG559", None),
    "a rank's own last words": ("[rank1]: no rewards were set, ending here\n" + GONE + FIRST, "unknown", (1,)),
    "a rank without last words": ("[rank1]: {'loss': 1.0}\n" + GONE + FIRST, "VG563", None),
    "a spawned process, and a warning right behind it": (
        OWN + "-- Process 0 terminated with the following error:\n" + OWN + "\n/env/lib/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 2\n  warnings.warn('tracker wandb: error')\n", "unknown", (0,)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(tmp_path, shape):
    told_right(tmp_path, *SHAPES[shape])


def test_an_error_level_alone_is_no_failure(tmp_path):
    """LLaVA's controller logs all of its standard error as errors."""
    said = ("Started server process [1944993]", "Waiting for application startup.", "Application startup complete.")
    told_right(tmp_path, "".join(f"2024-07-30 17:02:28 | ERROR | stderr | INFO:     {words}\n" for words in said), "unfinished", None)


def test_the_words_of_a_rank_are_shown(tmp_path):
    (tmp_path / "train.log").write_text("[rank1]: no rewards were set, ending here\n" + GONE + FIRST)
    answer, _ = explain([str(tmp_path / "train.log")])
    assert answer.evidence[0].text == "no rewards were set, ending here"


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc")
@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/status", "/proc/self"])
def test_the_kernels_files_are_no_logs(path, capsys):
    """A read of /proc/kmsg waits for the kernel's next word."""
    if not os.path.exists(path):
        pytest.skip("not here")
    with pytest.raises(sources.Unreadable, match="not a log"):
        sources.find([path])
    assert main([path]) == 2
    assert "not a log" in capsys.readouterr().err
