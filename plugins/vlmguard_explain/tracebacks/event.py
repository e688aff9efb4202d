"""One thing that happened in a log: an exception with its traceback, or a telling line."""

from __future__ import annotations

from dataclasses import dataclass, field

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.lines.lines import Line, Time
from vlmguard_explain.tracebacks import frames

_P = patterns("lines.event")
_T = words("lines.event")


def flat(text: str) -> str:
    """``text`` with single spaces: messages are wrapped by terminals and by rich."""
    return _P.space.sub(" ", text)


@dataclass
class Event:
    """An exception, or one telling line; ``line`` begins it."""

    line: Line
    type: str = ""  # of an exception; a line without one has no type
    message: str = ""
    # (file, line, function), outermost first; trace: its lines, with their source
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    cause: Event | None = None  # the exception that this one was raised from or while handling
    ignored: bool = False  # from a destructor or a side thread: it did not end the run
    caught: bool = False  # a logger wrote it as a warning or less
    last: Line | None = None  # the line with its type
    rank: int | None = None
    traced: bool = False  # the log has the traceback's first line
    titled: str = ""  # the type that a notebook writes above the traceback
    # the time of the error record right above, if the line itself has none
    clock: Time | None = None

    @property
    def source(self) -> int:
        return self.line.source

    @property
    def at(self) -> int:
        return (self.last or self.line).at

    @property
    def time(self) -> Time | None:
        return (self.last or self.line).time or self.line.time or self.clock

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def reason(self) -> Event:
        """What it was raised from, where it says itself only that something failed."""
        wraps = self.name == "DatasetGenerationError"  # any failure while it read a file
        return self.cause if wraps and self.cause and self.cause.type else self

    @property
    def where(self) -> tuple[str, int, str] | None:
        """The innermost frame outside installed packages, else the innermost."""
        own = [f for f in self.frames if not frames.foreign(f[0])]
        return own[-1] if own else self.frames[-1] if self.frames else None

    @property
    def phase(self) -> str:
        """In which phase of training it was raised, from its frames' functions; "" if unknown."""
        # requests' generate() downloads: that is no phase of generation
        names = {name for path, _, name in self.frames if not path.endswith("requests/models.py")}
        closure = names.issuperset(("training_step", "optimizer_step")) and "backward" not in names
        found = next((phase for phase, some in _T.phases if names.intersection(some)), "")
        return "forward" if closure else str(found)  # Lightning's optimizer step runs all phases
