"""A script or a command → everything that it would start, sorted into jobs and the rest."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vlmguard.check import launcher
from vlmguard.check.launcher import Job
from vlmguard.check.reading import notebook
from vlmguard.check.shell.evaluate import evaluate
from vlmguard.check.shell.state import Call, Remark, Trace, read_file
from vlmguard.check.wrappers.slurm import slurm_variables


@dataclass(frozen=True)
class Reading:
    """What a script would do.

    Attributes:
        jobs: training commands.
        unseen: commands that run others where nobody looked (sbatch, ssh, docker).
        skipped: every other command that was met.
        refused: what was not understood: no verdict on the whole then.
        remarks: what was not known.
        files: what the script would have written, path → text.
    """

    name: str
    jobs: tuple[Job, ...] = ()
    unseen: tuple[Call, ...] = ()
    skipped: tuple[Call, ...] = ()
    refused: tuple[Remark, ...] = ()
    remarks: tuple[Remark, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)


def of_file(path: str, arguments: Sequence[str], env: Mapping[str, str]) -> Reading:
    """Read a bash script, or a notebook's cells; a Python file is what ``python`` starts.

    Raises:
        OSError: why it cannot be read.
    """
    source = _source(path, arguments)
    given = {**slurm_variables(source), **env}
    trace, files = evaluate(source, path, os.getcwd(), given, arguments)
    return _sorted(path, trace, files)


def of_words(words: Sequence[str], env: Mapping[str, str]) -> Reading:
    """A command as it was typed behind ``--``: every word stands for itself.

    ``NAME=value`` in front is set for it, as a shell does.
    """
    name = "command line"
    at = 0
    while at < len(words) and re.match(r"[A-Za-z_]\w*=", words[at]):
        at += 1
    given = [word.partition("=")[::2] for word in words[:at]]
    source = " ".join([*(f"{key}={shlex.quote(value)}" for key, value in given),
                       shlex.join(words[at:])])  # fmt: skip
    trace, files = evaluate(source, name, os.getcwd(), env)
    trace.calls = [replace(call, line=0) if call.source == name else call for call in trace.calls]
    return _sorted(name, trace, files)


def _source(path: str, arguments: Sequence[str] = ()) -> str:
    """What bash would read."""
    if path.endswith(".ipynb"):
        return notebook.script(path)
    text = _text(path)
    return shlex.join(["python", path, *arguments]) if path.endswith(".py") else text


def _text(path: str) -> str:
    text = read_file(os.path.abspath(path))
    if text is None:
        os.stat(path)
        raise OSError(f"{path} cannot be read as a script (a device, a pipe, over 1 MB)")
    return text


def _sorted(name: str, trace: Trace, files: Mapping[str, str]) -> Reading:
    jobs: list[Job] = []
    unseen: list[Call] = []
    skipped: list[Call] = []
    for call in trace.calls:
        found = launcher.job(call)
        if found is not None:
            jobs.append(found)
        elif launcher.unseen(call):
            unseen.append(call)
        else:
            skipped.append(call)
    return Reading(name, tuple(jobs), tuple(unseen), tuple(skipped), tuple(trace.refused),
                   tuple(trace.remarks), files, trace)  # fmt: skip


def literally(path: str) -> Reading:
    """``--no-shell``: commands are found as they stand; nothing is expanded.

    A word with a variable or a substitution in it is not known.
    """
    from vlmguard.check.shell.literal import calls

    source = _source(path)
    trace = calls(source, path, os.getcwd())
    return _sorted(path, trace, {})
