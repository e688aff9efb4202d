"""What happened in a log: exceptions with their tracebacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vlmguard_explain.lazy import lazy, patterns, words
from vlmguard_explain.lines.lines import Line, Time
from vlmguard_explain.tracebacks import frames
from vlmguard_explain.tracebacks.event import Event

_P = patterns("lines.events")
_T = words("lines.events")

MAX_MESSAGE = 24  # lines
MAX_TRACE = 120  # lines of frames
CUT = 3  # lines of code and carets after a last frame

TYPE = lazy(
    r"^((?:[A-Za-z_]\w{0,60}\.){0,8}"
    r"(?:_?[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Failed|Iteration|Stop"
    r"|NotFound|Conflict)"
    r"|Exception|Timeout|EnforceNotMet|IoException|CheckpointError|GatedRepo|Stop|RaySystemError"
    r"|OutOfResources|ArrowInvalid|BrokenProcessPool|BadZipFile|RemoteDisconnected|IncompleteRead))"
    r"(?::(?:\s|$)(.*)|$)"
)

# A record of wandb's own debug.log after its time. The run survived what is in it.
TRACKER = lazy(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]{4,8}\s{1,5}\S{1,60}:\d{1,9} "
    r"\[\w{1,40}\.py:\w{1,60}\(\):"
)


class _Stream:
    """One stream of lines: tracebacks that are open in it, and the exception that is being read."""

    def __init__(self) -> None:
        self.open: list[Event] = []
        self.done: Event | None = None
        self.fresh = 0  # lines of its message still to read
        self.chained = False  # the next traceback came while the last exception was handled
        self.ignored = False  # the next one does not end the run
        self.raised = ""  # C++ type of "terminate called after"
        self.spawned: int | None = None  # torch.multiprocessing: whose traceback comes
        self.behind = 0  # lines since the last frame
        self.before: list[str] = []  # lines of source outside of a traceback
        self.tracker = False  # within a record of wandb's own log
        self.record, self.clock = "", None  # type: str, Time | None  # the line before; its time
        self.stack = False  # a logger's own stack is no traceback

    def read(self, line: Line) -> Event | None:
        """The exception that ``line`` ends."""
        text = line.text
        above, clock = self._notice(line)
        if _T.start in text:
            self._begin(line, above, clock)
        elif text.lstrip(" │").startswith(_T.chain):
            self.chained, self.fresh = self.done is not None, 0
        elif _P.ignored.match(text):
            self.ignored, self.fresh = True, 0
        elif self._frame(line):
            pass
        elif match := _P.spawned.match(text):
            self.spawned, self.fresh = int(match[1]), 0
        elif match := _P.terminate.search(text):
            self.raised = match[1]
        else:
            return self._native(line) or self._ended(line)
        return None

    def _notice(self, line: Line) -> tuple[str, Time | None]:
        """Count the lines; the line before, and its time, if it is an error's."""
        text, above = line.text, (self.record, self.clock)
        if self.fresh > MAX_MESSAGE - 3 and self.done and _P.went_on.search(line.raw):
            self.done.caught = True
        self.behind += not _P.source.match(text)
        if line.raw[4:5] == "-" and line.raw[:4].isdecimal():
            self.tracker = TRACKER.match(line.raw) is not None
        self.stack = self.stack or text.startswith("Stack (most recent call last)")
        if text.strip():
            self.record = line.raw
            self.clock = line.time if _P.erred.search(line.raw, 0, 200) else None
        return above

    def _begin(self, line: Line, above: str, clock: Time | None) -> None:
        event = Event(line, rank=line.rank, traced=True, clock=clock, ignored=self.ignored)
        if match := _P.title.match(line.text):
            event.titled = match[1]
        if event.rank is None:
            event.rank, self.spawned = self.spawned, None
        if event.rank is None and (match := _P.failed.search(f"{above} {line.raw}", 0, 1000)):
            event.rank = int(match[1] or match[2])
        logged = _P.logged.search(line.text.partition(_T.start)[0])
        event.caught = line.level == "W" or logged is not None or self.tracker
        event.cause = self.done if self.chained else None
        if event.rank is None and self.done:
            again = self.chained or line.text.startswith("Original ")
            event.rank = self.done.rank if again else None
        self.open.append(event)
        self.fresh, self.chained, self.ignored = 0, False, False

    def _frame(self, line: Line) -> bool:
        if not self.open and self.fresh:
            return False
        frame = frames.of(line.text)
        if frame is None or not (self.open or frame[2]):
            return False
        if not self.open:
            self.open.append(Event(line, rank=line.rank, caught=line.level == "W"))  # it was cut
        self.open[-1].frames.append(frame)
        self.open[-1].trace.append(line.text)
        self.behind = 0
        return True

    def _native(self, line: Line) -> Event | None:
        """What C++ or a watchdog's thread died of, and a logger's line for what nobody caught."""
        text = line.text
        if (match := _P.what.match(text)) and (self.raised or _P.group.match(match[1])):
            event = self._close(line, self.raised or "c10::DistBackendError", match[1])
            event.cause = None  # C++ has no such context
        elif match := _P.threw.search(text):
            line = replace(line, marked=False)  # it does not end the main thread's traceback
            event = Event(line, "c10::DistBackendError", match[1], last=line)
            if not self.open:
                self.done, self.fresh = event, MAX_MESSAGE
        elif not self.open and (match := _P.uncaught.match(text)):
            event = self._close(line, match[1], match[2])
        elif match := _P.debugger.match(text):
            return self._close(line, match[1], "")
        else:
            return None
        if event.rank is None:
            rank = _P.of_rank.search(line.raw)
            event.rank = int(rank[1]) if rank else line.rank
        return event

    def _ended(self, line: Line) -> Event | None:
        """The exception whose type the line names; what else it is, is noted."""
        text = line.text
        source = self.before[-1] if self.before and _P.code.match(self.before[-1]) else ""
        match = TYPE.match(text.strip(" │") if self.open or source else text)
        quoting = self.fresh and self.done is not None and self.done.message.endswith(" raised:")
        if match and quoting and not self.open and "OutOfMemory" not in match[1]:
            self._more(line)  # torch.compile quotes its backend's
            return None
        announced = match and "." in match[1] and match[0].rstrip().endswith(":")
        raising = source.lstrip().startswith(("assert ", "assert(", "raise "))
        if match and (self.open or match[2] or raising or announced):
            return self._close(line, match[1], match[2] or "")
        if self.open and self.open[-1].frames and (match := _P.dotted.match(text)):
            return self._close(line, match[1], match[2])
        if self.fresh:
            self._more(line)
        elif self.open:
            trace = self.open[-1].trace
            trace.append(text)
            if len(trace) > MAX_TRACE:  # long in a notebook: its beginning and end tell
                del trace[MAX_TRACE // 2]
        else:
            code = text.startswith("    ") or _P.code.match(text)
            self.before = [*self.before[-2:], text] if code else []
        return None

    def _close(self, line: Line, kind: str, message: str) -> Event:
        event = self.open.pop() if self.open else Event(line, rank=line.rank, ignored=self.ignored)
        event.trace = event.trace or self.before
        event.type, event.message, event.last = kind, message, line
        event.ignored = event.ignored or kind.endswith("CancelledError")  # asyncio's: no cause
        event.rank = line.rank if event.rank is None else event.rank
        if self.chained and event.cause is None:
            event.cause = self.done
        self.before, self.chained, self.ignored, self.raised = [], False, False, ""
        self.done, self.fresh = event, MAX_MESSAGE
        return event

    def _more(self, line: Line) -> None:
        """A line behind an exception's: of its message, or a record of its own."""
        event = self.done
        if event is None or _P.record.match(line.text) or _recorded(event, line):
            self.fresh = 0
            return
        long = self.fresh < MAX_MESSAGE - 1 and len(event.message) > 200
        if long and not line.text.strip():
            self.fresh = 0
        else:
            if not _P.bar.match(line.text):
                event.message += "\n" + line.text
            self.fresh -= 1

    def left(self) -> Iterator[Event]:
        """Tracebacks that never ended, if they tell anything; a notebook's may be a title alone."""
        for event in self.open:
            end = next((text for text in reversed(event.trace) if text.strip()), "")
            match = _P.raise_word.match(end)  # notebooks name the type above, "raise" below
            event.type = event.titled or (match[1] if match else "")
            boxed = any("❱" in text for text in event.trace[-12:])  # rich marks a frame's line so
            cut = not self.stack and self.behind <= CUT and (len(event.frames) > 1 or boxed)
            some = event.frames or (event.titled and len(self.open) == 1)
            if some and (match or event.traced or (event.frames and cut)):
                yield event


def exceptions(lines: Iterable[Line]) -> Iterator[Event]:
    """Exceptions in the order in which they end. Streams (ranks, hosts) are followed apart."""
    streams: dict[tuple[int, str], _Stream] = {}
    found: list[Event] = []
    for line in lines:
        stream = streams.setdefault((line.source, line.lane), _Stream())
        if event := stream.read(line):
            found.append(event)
    for stream in streams.values():
        found += stream.left()
    yield from sorted(found, key=lambda e: (e.source, e.at))


def _recorded(event: Event, line: Line) -> bool:
    """Whether a logger wrote the line, and the exception not, or by another level."""
    return bool(line.level) and (line.level in "IW" or line.level != (event.last or line).level)
