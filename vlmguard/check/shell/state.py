"""What a script knows while it is read, and what came of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vlmguard.check.shell.tree import Command, NotUnderstood

LONGEST = 1 << 20
"""Characters that one value may have, bytes that one file may have."""
# Characters of Unicode's private use area stand for values that are not known.
_FIRST, _LAST = 0xE000, 0xF8FF
_MARK = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
# Set by a scheduler or platform on the machine where the script will run.
_SCHEDULED = re.compile(
    r"(SLURM|PBS|LSB|PET|VC|MLP|ARNOLD|KUBERNETES|VOLC|AFS|PAI|SENSECORE|OMPI|METIS)_\w+|PBS_\w+|"
    r"(GROUP_|LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)|NODE_RANK|NNODES|HOSTNAMES?"
)
_CLOSED = ("/dev/", "/proc/", "/sys/", "/run/")


@dataclass
class Array:
    """A bash array; ``named`` for an associative one."""

    items: dict[str, str] = field(default_factory=dict)
    named: bool = False


Value = str | Array


@dataclass(frozen=True)
class Call:
    """A command that is not the shell's own: met, never started.

    Attributes:
        words: the command and its arguments, with marks for what is not known.
        env: the variables that it would see.
        folder: where it would run.
        line: in the script ``source``, counted from 1.
        certain: false in a branch whose condition is not known.
        pipes: whether its output is used by the script.
        around: the words of the wrappers before it.
        implied: how many of ``words`` were not typed: the wrapper runs them with Python.
        many: the wrapper that starts more than one copy; "" where none does.
        code: what a Python interpreter would read from its standard input.
    """

    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: str
    line: int
    source: str
    certain: bool = True
    pipes: bool = False
    around: tuple[str, ...] = ()
    implied: int = 0
    many: str = ""
    code: str = ""


@dataclass(frozen=True)
class Remark:
    """Something that was not known or not understood, and where."""

    line: int
    source: str
    text: str


@dataclass
class Trace:
    """Everything that was met."""

    calls: list[Call] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    steps: int = 0

    def unknown(self, reason: str) -> str:
        """A mark for a value that is not known."""
        if reason in self.reasons:
            return chr(_FIRST + self.reasons.index(reason))
        if len(self.reasons) > _LAST - _FIRST:
            raise NotUnderstood("too many values that are not known")
        self.reasons.append(reason)
        return chr(_FIRST + len(self.reasons) - 1)

    def why(self, text: str) -> list[str]:
        """The reasons behind the marks in ``text``."""
        found = dict.fromkeys(_MARK.findall(text))
        return [self.reasons[ord(mark) - _FIRST] for mark in found]

    def shown(self, text: str) -> str:
        """``text`` with its marks in words."""
        return _MARK.sub(lambda m: f"‹{self.reasons[ord(m[0]) - _FIRST]}›", text)


def known(*texts: str) -> bool:
    """Whether there is no mark in any."""
    return not any(_MARK.search(text) for text in texts)


def marks(text: str) -> str:
    """The marks of ``text`` alone."""
    return "".join(dict.fromkeys(_MARK.findall(text)))


def cleaned(source: str) -> str:
    """A script's own text, in which no mark may stand."""
    return _MARK.sub("\ufffd", source)


@dataclass
class State:
    """One shell's variables, functions, arguments and folder. `copy` makes a subshell."""

    variables: dict[str, Value]
    exported: set[str]
    functions: dict[str, Command] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    name: str = "bash"
    folder: str = "/"
    files: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    certain: bool = True
    status: int | None = 0
    depth: int = 0
    scopes: list[dict[str, Value | None]] = field(default_factory=list)

    def copy(self, certain: bool = True) -> State:
        """A subshell. Files that it "writes" stay its own where it is not certain to run."""
        variables = {
            name: Array(dict(value.items), value.named) if isinstance(value, Array) else value
            for name, value in self.variables.items()
        }
        return replace(
            self,
            variables=variables,
            exported=set(self.exported),
            functions=dict(self.functions),
            scopes=[dict(scope) for scope in self.scopes],
            files=dict(self.files) if not certain else self.files,
            certain=self.certain and certain,
        )

    @property
    def env(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items()
                if name in self.exported and isinstance(value, str)}  # fmt: skip

    def get(self, name: str) -> Value | None:
        return self.variables.get(name)

    def text(self, name: str, default: str = "") -> str:
        """The variable as a string: an array's first element."""
        value = self.variables.get(name)
        if isinstance(value, Array):
            return value.items.get("0", default)
        return default if value is None else value

    def set(self, name: str, value: Value) -> None:
        if isinstance(value, str) and len(value) > LONGEST:
            raise NotUnderstood(f"{name} grows beyond {LONGEST} characters")
        self.variables[name] = value

    def localise(self, name: str, before: Value | None) -> None:
        """``local name``: what it was before comes back when the function ends."""
        if self.scopes and name not in self.scopes[-1]:
            self.scopes[-1][name] = before

    def leave_function(self) -> None:
        for name, value in self.scopes.pop().items():
            if value is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = value

    def path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(name)))

    def read(self, name: str) -> str | None:
        """A regular file's text; None where it cannot be read or must not be."""
        path = self.path(name)
        if path in self.files:
            return self.files[path]
        return read_file(path)

    def kind(self, name: str) -> str:
        """ "file", "folder", "other" or "" for a path, those of the script's own making too."""
        path = self.path(name)
        if path in self.files:
            return "file"
        if path in self.folders or os.path.isdir(path):
            return "folder"
        if os.path.isfile(path):
            return "file"
        return "other" if os.path.exists(path) else ""

    def write(self, name: str, text: str, append: bool = False) -> None:
        """Remember what a file would hold. Nothing is written."""
        path = self.path(name)
        before = (self.read(path) or "") if append else ""
        if len(before) + len(text) <= LONGEST:
            self.files[path] = before + text


class Stdin:
    """A command's standard input, read piece by piece."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def take(self, between: str) -> str | None:
        """Up to ``between``; None at the end."""
        if not self.text:
            return None
        line, _, self.text = self.text.partition(between)
        return line

    def rest(self) -> str:
        text, self.text = self.text, ""
        return text


def read_file(path: str) -> str | None:
    """A regular file's text. Devices, pipes and kernel files are not opened."""
    real = os.path.realpath(path)
    if real.startswith(_CLOSED):
        return None
    try:
        found = os.stat(real)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LONGEST:
            return None
        with open(real, "rb") as file:
            return cleaned(file.read(LONGEST).decode("utf-8", "replace")).replace("\0", "")
    except OSError:
        return None


def scheduled(name: str) -> bool:
    """Whether a variable that is not set here will be where the script runs."""
    return _SCHEDULED.fullmatch(name) is not None
