"""Logs that end before anything ran: the shell's own refusal, a logger's last word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain.lines import Line

_SAID = (
    r"(?:[Nn]o such file or directory|[Cc]ommand not found|not found|cannot execute.{0,60}"
    r"|没有那个文件或目录|未找到命令)"
)
# "bash: ./train.sh: No such file or directory", "job.sh: line 3: x: command not found",
# "run.sh: 3: x: not found", zsh's with the name behind, fish's.
_REFUSED = re.compile(
    rf"^(?:-?(?:/\S{{0,40}}/)?(?:ba|z|da|k|c|tc)?sh|\S{{1,200}}(?:\.sh|\.slurm|\.sbatch|slurm_script))"
    rf": (?:(?:line |行 ?)?\d{{1,5}}\s?[:：] ?)?[^\s:]{{1,200}}: {_SAID}$"
    r"|^zsh: (?:command not found|no such file or directory): \S"
    r"|^fish: Unknown command: \S"
)
_ERROR = re.compile(
    r"^(?:\S{0,40}\d\d:\d\d:\d\d\S{0,12}[\s|-]{0,6}\S{0,60}[\s|-]{1,6})?"
    r"(?:\[?(?:ERROR|CRITICAL|FATAL)\b[\]:|]?)|\s(?:ERROR|CRITICAL|FATAL)\b\s{0,3}[-:|\]]"
)
_FAILING = re.compile(
    r"(?i)\b(?:fail\w{0,4}|abort\w{0,3}|crash\w{0,3}|error|exception|exit\w{0,3}|cannot|unable|invalid)\b"
    r"|失败|错误|异常|终止"
)
_GOES_ON = re.compile(
    r"(?i)retry|will try|skip|ignor|fall\w{0,4} ?back|warn|wandb|swanlab|\[c10d\]"
)
ONLY = 0.6  # of the lines


def refused(kept: Sequence[Line]) -> Line | None:
    """The last line, where it is a shell's word that what it should start is not there."""
    said = [line for line in kept[-20:] if line.text.strip()]
    return said[-1] if said and _REFUSED.match(said[-1].text.strip()) else None


def failed(kept: Sequence[Line]) -> Line | None:
    """The first of a logger's errors, where hardly anything else is left of the log."""
    said = [line for line in kept if line.text.strip()]
    errors = [line for line in said if _told(line)]
    if not errors or errors[-1] is not said[-1] or len(errors) < ONLY * len(said):
        return None
    return errors[0]


def _told(line: Line) -> bool:
    if line.level and line.level in "WI":
        return False
    level = _ERROR.search(line.raw[:200])
    if level is None and not (line.level and line.level in "EFC"):
        return False
    words = line.raw[level.end() if level else 0 :][:600]  # its own, not the level's
    return bool(_FAILING.search(words)) and not _GOES_ON.search(line.raw)
