"""What schedulers, containers, clouds and MPI say of the end of the program that they ran."""

from __future__ import annotations

import re

# Each with the exit code as group 1; where the words tell a failure without one, it is 1.
_CODES = (
    re.compile(r"AlgorithmError: ?Exit ?Code:? {0,3}(\d{1,3})"),  # SageMaker
    re.compile(r"^ExitCode (\d{1,3})$"),
    re.compile(r"^\s*Exit Code:\s{1,9}(\d{1,3})$"),  # kubectl describe
    re.compile(r"\bPod: \S{1,120} exited with code (\d{1,3})\b"),  # Kubeflow's operator
    re.compile(r"^\S{1,80} exited with code (\d{1,3})$"),  # docker compose
    re.compile(r"command terminated with exit code (\d{1,3})"),  # kubectl exec
    re.compile(r"User process .{1,200} exited with status code (\d{1,3})"),  # AzureML
    re.compile(r"ontainer .{1,120} failed with status code `(\d{1,3})`"),
    re.compile(
        r"The replica \S{1,60} (?:ran out-of-memory and )?exited with a non-zero status "
        r"of (\d{1,3})"
    ),  # Vertex AI
    re.compile(r"worker exited with exit code (\d{1,3})"),  # RunPod
    re.compile(r"Runner failed with exit code:? (-?\d{1,3})"),  # Modal
    re.compile(r"Job entrypoint command failed with exit code (\d{1,3})"),  # Ray's job
    re.compile(r"^State: (?:FAILED|NODE_FAIL) \(exit code (\d{1,3})\)"),  # Slurm's seff
    re.compile(r"^\s*Exit_status ?= ?(\d{1,3})"),  # PBS
    re.compile(r"^exit_status\s{1,12}(\d{1,3})\b"),  # SGE's qacct
    re.compile(r"Normal termination \(return value (\d{1,3})\)"),  # HTCondor
    re.compile(r"Process finished with exit code (-?\d{1,12})\b"),  # PyCharm
    re.compile(r"Process completed with exit code (\d{1,3})\b"),  # Actions
    re.compile(r"Command exited with non-zero status (\d{1,3})$"),  # GNU time
    re.compile(r"Main process exited, code=exited, status=(\d{1,3})\b"),  # systemd
    re.compile(r"\b[Pp]rocess \S{1,40} exit(?:ed|s) with (?:exit |return )?code:? (-\d{1,2})\b"),
    # Of other words only the codes that a signal leaves.
    re.compile(r"\b[Ee]xit(?:ed|s)?(?: with)?(?: (?:status|exit|error))? code:? (13[2-9]|143)\b"),
    re.compile(r'"ExitCode": (\d{1,3}),?$'),  # docker inspect
    re.compile(r"^=\s{1,9}EXIT CODE: (\d{1,3})"),  # MPICH's and Intel's mpiexec
)
_SIGNALS = (
    re.compile(r"Main process exited, code=(?:killed|dumped), status=(\d{1,2})/"),
    re.compile(r"Command terminated by signal (\d{1,2})$"),
    re.compile(r"Abnormal termination \(signal (\d{1,2})\)"),
    re.compile(r"KILLED BY SIGNAL: (\d{1,2}) \("),  # Intel's mpiexec
    re.compile(r"Exited with signal termination: (\d{1,2})\b"),  # LSF
)
_FAILED = (
    "Failed - Training job failed",
    "ExecuteUserScriptError:",
    "Job failed with non-zero exit Code",
    "Submitted script failed with a non-zero exit code",
    "Error: failed to run torchrun",  # ColossalAI
    "submitit ERROR",
    "Back-off restarting failed container",
)
_CORE = re.compile(
    r"^(?:.{0,60}\s)?(Aborted|Segmentation fault|Bus error|Illegal instruction"
    r"|Floating point exception) \(core dumped\)"
)
_ZSH = re.compile(
    r"^(?:zsh: |\[\d{1,3}\] {1,4}[+-]? {0,4}\d{2,9} )"
    r"(killed|segmentation fault|abort|bus error|terminated|illegal hardware instruction)\b"
)
_ZSHS = {"killed": -9, "segmentation fault": -11, "abort": -6, "bus error": -7, "terminated": -15}
_CORES = {"Aborted": -6, "Segmentation fault": -11, "Bus error": -7, "Illegal instruction": -4}
_NOTICED = re.compile(
    r"(?:mpirun|mpiexec|orterun|prterun)\S{0,8} noticed that process rank (\d{1,6})"
    r"(?:.{0,200} exited on signal (\d{1,2}))?"
)
_ON_SIGNAL = re.compile(r"exited on signal (\d{1,2}) \(")
_MPI_ABORT = re.compile(r"MPI_ABORT was invoked on rank (\d{1,6}) in communicator")
_HOROVOD = re.compile(r"Process (\d{1,6}) exit with status code (\d{1,3})\b")
_LIGHTNING = re.compile(
    r"\[rank: (\d{1,6})\] Child process with PID \d{1,9} terminated with code (-?\d{1,3})"
)
_MPT = re.compile(r"MPT ERROR: Rank (\d{1,6})\(g:\d{1,6}\) received signal SIG\w{2,8}\((\d{1,2})\)")
# Before the code on the next line: Open MPI's, MPICH's.
_WHO = re.compile(
    r"^\s*(?:Process name: \[\S{1,120}[,@](\d{1,6})\]$"
    r"|=\s{1,9}RANK (\d{1,6}) PID \d{1,9} RUNNING AT)"
)
_ITS_CODE = re.compile(r"^\s*(?:=\s{1,9})?(?:Exit code|EXIT CODE):\s{1,9}(\d{1,3})")
_WORDS = (
    *(
        "zsh: ",
        "] ",
        "xit",
        "ailed",
        "core dumped",
        "ermination",
        "KILLED",
        "terminated ",
        "submitit ERROR",
    ),
    *("noticed that", "MPI_ABORT", "MPT ERROR", "Process name: ", "RUNNING AT", "EXIT CODE"),
)


class Jobs:
    """Reads a log's lines in order; keeps who the next line's code is about."""

    def __init__(self) -> None:
        self._who: int | None = None

    def told(self, text: str) -> tuple[int, int | None] | None:
        """(exit code, or minus a signal's number; rank where it is told) of what failed."""
        if len(text) > 2000 or not any(word in text for word in _WORDS):
            return None
        if match := _WHO.match(text):
            self._who = int(match[1] or match[2])
            return None
        if (match := _ITS_CODE.match(text)) and self._who is not None:
            rank, self._who = self._who, None
            return (int(match[1]), rank) if int(match[1]) else None
        if match := _NOTICED.search(text):
            return -int(match[2] or 1) if match[2] else 1, int(match[1])
        if match := _MPI_ABORT.search(text):
            return 1, int(match[1])
        if match := _MPT.search(text):
            return -int(match[2]), int(match[1])
        if match := _HOROVOD.search(text) or _LIGHTNING.search(text):
            return (int(match[2]), int(match[1])) if int(match[2]) else None
        if match := _ON_SIGNAL.search(text):
            return -int(match[1]), None
        code = _code(text)
        return None if code is None else (code, None)


def _code(text: str) -> int | None:
    if match := _CORE.match(text):
        return _CORES.get(match[1], -8)
    if match := _ZSH.match(text):
        return _ZSHS.get(match[1], -4)
    for pattern in _SIGNALS:
        if match := pattern.search(text):
            return -int(match[1])
    for pattern in _CODES:
        if match := pattern.search(text):
            return int(match[1]) or None
    return 1 if any(words in text for words in _FAILED) else None
