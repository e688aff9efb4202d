"""What launchers and schedulers say of the processes they started: who ended first, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vlmguard.explain.jobs import Jobs
from vlmguard.explain.lines import Line, Time, _clock

KILLED = (-9, 137)  # by SIGKILL, as torchrun and as a shell tell it
_ROOT = "Root Cause (first observed failure)"
_TYPED = ("it/s]^C", "s/it]^C")  # Ctrl-C's echo behind a bar; Colab's out of memory, too
# Slurm's words before it kills a step itself: what is "Killed" then had no failure of its own.
_ENDING = (
    " CANCELLED AT ",
    "srun: forcing job termination",
    "srun: Force Terminated",
    "srun: sending Ctrl-C to",
)
_CUT = ("Failures:", "Unexpected error: <class ")  # what is left of a table or a traceback
_RANK = re.compile(r"^\s*(?:│ )?rank\s{1,9}: (\d{1,6}) \(local_rank: (\d{1,4})\)")
_CODE = re.compile(r"^\s*(?:│ )?exitcode\s{1,9}: (-?\d{1,4})(?: \(pid: \d{1,9}\)|\s*$)")
_TIME = re.compile(r"^\s*(?:│ )?time\s{1,9}: (\d{4}-\d\d-\d\d)[_T ](\d\d:\d\d:\d\d)()")
_FAILED = re.compile(
    r"failed \(exitcode: (-?\d{1,4})\)[^\n]{0,300}? local_rank: (\d{1,4})\s?"
    r"(?:\((?:pid|process ID): \d{1,9}\)|$)"  # cut behind it, in a quotation
)
_CLOSING = re.compile(r"closing signal SIG(HUP|INT)\b")  # torchrun passes on what it got itself
_CHILDREN = re.compile(  # torch 1.9 to 1.11
    r"Child process \d{1,9} \(local_rank (\d{1,4})\) FAILED \(exitcode (-?\d{1,4})\)"
)
_RETURN = re.compile(  # a script's own starter, too: of a signal only
    r"(?:exits with return code =|[Tt]raining failed with exit code(?= -)) (-?\d{1,4})"
)
_SRUN = re.compile(
    r"^(?:\[\d{4}[^\]]{0,30}\] )?srun: error: (\S{1,80}): tasks? ([\d,-]{1,60}): (.{1,120})"
)
# A task of srun's that starts ranks itself is a node, no rank.
_STARTERS = (
    "torchrun",
    "elastic",
    "distributed.run",
    "distributed.launch",
    "[launch.py:",
    "accelerate",
)
_DIED = re.compile(r"died with <Signals\.SIG\w{2,8}: (\d{1,2})>")
_SPAWNED = re.compile(r"process (\d{1,5}) terminated with signal SIG(KILL|SEGV|ABRT|BUS|TERM)\b")
_NUMBERS = {"KILL": -9, "SEGV": -11, "ABRT": -6, "BUS": -7, "TERM": -15}
_CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_LSF = re.compile(r"^Exited with exit code (\d{1,3})\.")
_SHELL = re.compile(  # bash's, of a Chinese locale, too
    r"(?:^|line \d{1,5}: +|行 ?\d{0,5}\s?[:：] +)\d{2,9} "
    r"(Killed|Segmentation fault|Aborted|Bus error|Terminated"
    r"|已杀死|被杀死|段错误|已放弃|已中止|总线错误|已终止)(?![A-Za-z])"
)
# As a shell ends a progress bar's line; a bar that turns: "eta 1:02 \\Terminated".
_BARE = re.compile(
    r"(?:^|it/s\]|s/it\]|\d [\\/|-])\s{0,3}(Killed|Terminated|已杀死|被杀死|已终止)$"
)
_TOLD = re.compile(r"Main process received SIG(INT|TERM), exiting")  # DeepSpeed
_STATUS = re.compile(  # what torchrun's agent of old wrote of each worker
    r'"torchelastic\.worker\.status\.FAILED".{1,200}"global_rank": (\d{1,6})'
)
_HANDLER = re.compile(r"\[ERROR\] \[launch\.py:\d{1,5}:sigkill_handler\] \[")  # cut behind it
_PANIC = "thread '"  # Rust's: tokenizers, safetensors
# Hydra's and Ray's words before or instead of an exception; ColossalAI's launcher.
_DRIVER = ("Error executing job with overrides:", "Error: failed to run torchrun")
_DIED_RAY = "A worker died or was killed while executing"
_ASCEND = re.compile(
    r"\(PID:\d{1,9}, Device:-?\d{1,4}, RankID:-?\d{1,5}\) ERR99999 UNKNOWN applica"
)
_STOPPED = "The process receives a SIGTERM"  # Ray ends its workers with it when all is done
_SIGNALS = {
    "Killed": -9,
    "Segmentation fault": -11,
    "Aborted": -6,
    "Bus error": -7,
    "Terminated": -15,
    "已杀死": -9,
    "被杀死": -9,
    "段错误": -11,
    "已放弃": -6,
    "已中止": -6,
    "总线错误": -7,
    "已终止": -15,
}


@dataclass(frozen=True)
class Exit:
    """How a process ended: its rank (on its node) where told, its code, whether it was first."""

    line: Line
    code: int
    rank: int | None = None
    time: Time | None = None
    first: bool = False
    local: int | None = None


def exits(lines: Iterable[Line]) -> list[Exit]:
    """Every process that is said to have failed, in order."""
    found: list[Exit] = []
    root = cancelled = False
    rank: int | None = None
    time: Time | None = None
    cut: Line | None = None
    jobs = Jobs()
    last: Line | None = None
    killed = 0
    nodes = False
    for line in lines:
        text = line.text
        nodes = nodes or any(word in text for word in _STARTERS)
        last = line if text.strip() else last
        cancelled = cancelled or any(words in text for words in _ENDING)
        if (told := jobs.told(text)) is not None:
            found.append(Exit(line, told[0], told[1], line.time))
            continue
        if text.startswith(_CUT):
            cut = line
        if match := _STATUS.search(text):
            found.append(Exit(line, 1, int(match[1]), line.time))
            continue
        if text.startswith(_PANIC) and " panicked at " in text:
            found.append(Exit(line, 1, None, line.time))
            continue
        if (text.startswith(_DRIVER) or _DIED_RAY in text) and _STOPPED not in text:
            found.append(Exit(line, 1, None, line.time))
            continue
        if "ERR99999" in text and _ASCEND.search(text):  # torch_npu, as a rank's Python ends
            found.append(Exit(line, 1, None, line.time))
            continue
        if match := _DIED.search(text):
            found.append(Exit(line, -int(match[1]), None, line.time))
            continue
        if match := _SPAWNED.search(text):  # torch.multiprocessing.spawn's index is the rank
            found.append(Exit(line, _NUMBERS[match[2]], int(match[1]), line.time))
            continue
        if "sigkill_handler] [" in text and "return code" not in text and _HANDLER.search(line.raw):
            found.append(Exit(line, 1, None, line.time))
            continue
        if text.startswith(_CHILD):
            found.append(Exit(line, 1, None, line.time))
            continue
        if match := _CLOSING.search(text):
            found.append(Exit(line, -1 if match[1] == "HUP" else -2, None, line.time))
            continue
        if match := _TOLD.search(text):
            found.append(Exit(line, -2 if match[1] == "INT" else -15, None, line.time))
            continue
        if "exit" not in text and "rank" not in text and "time" not in text:
            if _ROOT in text:
                root = True
            elif match := _SHELL.search(text) or _BARE.search(text):
                code = _SIGNALS[match[1]]
                ended = cancelled and code == -9
                found.append(Exit(line, -15 if ended else code, None, line.time))
            elif match := _SRUN.match(text):
                killed += "Killed" in match[3]
                found.append(Exit(line, _srun(match[3], cancelled), _task(match), line.time))
            elif text.startswith("====") and root:
                root = False
            continue
        if match := _TIME.match(text):
            time = _clock(match)
        elif match := _RANK.match(text):
            rank = int(match[1])
        elif match := _CODE.match(text):
            if int(match[1]) != 0:
                found.append(Exit(line, int(match[1]), rank, time or line.time, root))
            rank = time = None
        elif match := _FAILED.search(text):
            found.append(Exit(line, int(match[1]), None, line.time, local=int(match[2])))
        elif match := _CHILDREN.search(text):
            found.append(Exit(line, int(match[2]), None, line.time, local=int(match[1])))
        elif match := _RETURN.search(text) or _LSF.match(text):
            if int(match[1]) != 0:
                found.append(Exit(line, int(match[1]), None, line.time))
        elif match := _SRUN.match(text):
            found.append(Exit(line, _srun(match[3], cancelled), _task(match), line.time))
    tasks = [e for e in found if _SRUN.match(e.line.text)]
    if nodes or not any(e.rank for e in tasks):  # task 0 may be all there is, a launcher
        found = [replace(e, rank=None) if e in tasks else e for e in found]
    if killed > 1:  # memory ends one task or one node's: who ended all of them stands outside
        found = [replace(e, code=-15) if _just_killed(e) else e for e in found]
    if last is not None and not found and last.text.rstrip().endswith(_TYPED):
        found.append(Exit(last, -2, None, last.time))
    if cut is not None and not found:
        found.append(Exit(cut, 1, None, cut.time))
    return found


def killed(text: str) -> bool:
    """Whether a shell says that a signal ended what it ran."""
    return bool(_SHELL.search(text) or _BARE.search(text))


def _just_killed(ended: Exit) -> bool:
    match = _SRUN.match(ended.line.text)
    return match is not None and "Killed" in match[3]


def _task(match: re.Match[str]) -> int | None:
    """The rank in srun's words on one task; of several none is told."""
    return int(match[2]) if match[2].isdecimal() else None


def _srun(what: str, cancelled: bool = False) -> int:
    """The exit code in srun's words; of a step that was cancelled "Killed" is the cancelling."""
    if cancelled and "Killed" in what:
        return -15
    if match := re.search(r"exit code (\d{1,3})", what):
        return int(match[1])
    signals = {
        "Out Of Memory": -9,
        "Killed": -9,
        "Segmentation": -11,
        "Aborted": -6,
        "Bus error": -7,
        "Terminated": -15,
    }
    return next((code for word, code in signals.items() if word in what), 1)


def first(found: Iterable[Exit]) -> Exit | None:
    """The first observed failure; of several nodes' launchers the earliest in time."""
    roots = [e for e in found if e.first and e.rank is not None]
    timed = [e for e in roots if e.time is not None]
    return min(timed, key=lambda e: e.time or ()) if timed else roots[0] if roots else None
