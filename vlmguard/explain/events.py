"""What happened in a log: exceptions with their tracebacks, and lines that tell of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from vlmguard.explain import frames
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line, Time

MAX_MESSAGE = 24  # lines
MAX_TRACE = 120  # frames' lines
NEXT = 3  # lines behind a message in which a program says that it went on
CUT = 3  # lines of code and carets behind a last frame

_START = "Traceback (most recent call last)"
# What a quotation shows of the source above an exception's name.
_CODE = re.compile(
    r"^\s{0,40}(?:assert[ (]\S|raise \w|[\w, .\[\]*'\"]{1,120} [-+*/]?= ?\S|\w{1,40}\[['\"]"
    r"|\[\w{1,40}\[|[a-z_][\w.]{1,80}\(.{1,200}\)\s{0,8}$)"
)
_NUMBERED = re.compile(r"^(?:-{2,4}> ?|\s{1,5})\d{1,5} ")  # a notebook's lines of source
_TITLE = re.compile(r"^\*{0,2}([A-Za-z_]\w{2,60})\s{2,60}Traceback \(most recent call last\)")
_SPAWNED = re.compile(r"^-- Process (\d{1,5}) terminated with the following error")
TYPE = re.compile(
    r"^((?:[A-Za-z_]\w{0,60}\.){0,8}"
    r"(?:_?[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Failed|Iteration|Stop"
    r"|NotFound|Conflict)"
    r"|Exception|Timeout|EnforceNotMet|IoException|CheckpointError|GatedRepo|Stop|RaySystemError"
    r"|OutOfResources|ArrowInvalid|BrokenProcessPool|BadZipFile|RemoteDisconnected|IncompleteRead))"
    r"(?::(?:\s|$)(.*)|$)"
)
# Behind a frame any dotted class is one: cv2.error, pynvml.NVMLError_Unknown, torch's Unsupported.
_DOTTED = re.compile(r"^((?:[A-Za-z_]\w{0,60}\.){1,8}[A-Za-z_]\w{0,60}): (?!\[(?!Errno ))(.*)$")
_WHAT = re.compile(r"^\s{0,4}what\(\):\s{1,3}(.{1,4000})")
_GROUP = re.compile(r"\[[^\]\n]{0,80}\bRank (\d{1,5})\]")  # before what a watchdog threw
# What a watchdog's thread died of: an exception that Python never saw.
_THREW = re.compile(r"watchdog thread terminated with exception: (.{1,4000})")
_TERMINATE = re.compile(r"terminate called after throwing an instance of '([^'\n]{1,120})'")
# A logger's line for what nobody caught: "CRITICAL [root, rank=0] Uncaught ValueError: …".
_UNCAUGHT = re.compile(
    r"^.{0,160}\bUncaught ((?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{1,60}(?:Error|Exception)): (.{1,4000})"
)
_NAMED = re.compile(r"\brank=(\d{1,5})\]")
# A logger's record with its rank above the traceback: "[error] training failed  rank=5".
_FAILED = re.compile(
    r"^(?!.{0,300}(?:NCCL|\b(?:peer|wait|lost|timed? ?out)))"
    r"(?=.{0,300}(?:\b(?i:error|exception|critical|fatal)\b|\b(?:crash|fail)ed\b))"
    r".{0,300}(?<![\w.])(?:global_|world_)?(?:[Rr]ank(?:=|: ?)(\d{1,5})\b|\b[Rr]ank (\d{1,5}):)"
)
# VS Code's: the innermost frame comes first.
_DEBUGGER = re.compile(r"^(?:Exception has occurred|发生异常): ([A-Za-z_][\w.]{0,120})")
CHAIN = ("During handling of the above", "The above exception was the direct cause")
_RAISE = re.compile(r"^\s*raise (?:\w{1,60}\.){0,4}([A-Z]\w{0,60})\(")
# A record of wandb's own debug.log, behind its clock: what it tells there it survived.
TRACKER = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]{4,8}\s{1,5}\S{1,60}:\d{1,9} "
    r"\[\w{1,40}\.py:\w{1,60}\(\):"
)
_IGNORED = re.compile(
    r"^Exception (?:ignored in|in threading"
    r"|in thread(?!.{0,40}\((?:run_exp|run_sft|train|fit)\)))"  # a web page's, which trains
    r"|^Uncaught exception in compile_worker subprocess"  # inductor's, at the rank's end
)
# What a program says that went on without what failed.
_WENT_ON = re.compile(r"(?:WARN|INFO).{0,300}\b(?:[Ff]alling back|[Ff]all back|[Rr]etrying)\b")
_ERRED = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
_RECORD = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[T ]|^\[(?:INFO|WARNING|rank)"
    r"|^\[ERROR(?!\] \d{4}-[\d:-]{14,16} \(PID:)"  # torch_npu's own is part of its message
    r"|^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,80}:"  # Python's own format
    r"|^(?:DEBUG|INFO|WARNING|ERROR|FATAL): {2,8}\S"  # Apptainer's
    r"|^(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) {1,9}\| "  # loguru's
    r"|^(?:srun|slurmstepd): "
    r"|^[IWE]\d{4} |^Traceback \(|^vlmguard: "
    r"|^(?:/|[A-Za-z]:\\|<)\S{1,300}:\d{1,7}: [A-Z]\w{0,40}Warning: "
)


class _Lane:
    """Tracebacks that are open in one stream of lines, and the exception that is being read."""

    def __init__(self) -> None:
        self.open: list[Event] = []
        self.done: Event | None = None
        self.chained = False
        self.ignored = False
        self.fresh = 0  # message lines still to read
        self.raised = ""  # C++ type of "terminate called after"
        self.spawned: int | None = None  # of torch.multiprocessing: whose traceback comes
        self.behind = 0  # lines since the last frame
        self.before: list[str] = []  # lines of source, where no traceback is open
        self.half = ""  # of a frame that rich wrapped
        self.debugger = False  # frames belong to what is done, the innermost first
        self.tracker = False  # within a record of wandb's own log
        self.record = ""  # the last line that was not empty
        self.clock: Time | None = None  # of that line, if it tells of an error
        self.stack = False  # a logger's own stack is no traceback
        self.named: tuple[Line, str] | None = None  # a type whose message may be on the next line

    @property
    def cut(self) -> bool:
        """Whether the lane ends within a traceback whose beginning is not there either."""
        event = self.open[-1]
        boxed = any("❱" in text for text in event.trace[-12:])  # rich's mark of a frame's line
        return not self.stack and self.behind <= CUT and (len(event.frames) > 1 or boxed)


def exceptions(lines: Iterable[Line]) -> Iterator[Event]:
    """Exceptions in the order in which they end. Lanes (ranks, hosts) are followed apart."""
    lanes: dict[tuple[int, str], _Lane] = {}
    found: list[Event] = []
    for line in lines:
        lane = lanes.setdefault((line.source, line.lane), _Lane())
        event = _step(lane, line)
        if event is not None:
            found.append(event)
    for lane in lanes.values():
        for event in lane.open:
            event.buried = not (_cut(event) or event.traced or (event.frames and lane.cut))
        found += [e for e in lane.open if _tells(e, len(lane.open) == 1)]
        if lane.done is not None and lane.fresh:
            lane.done.final = True
    yield from sorted(found, key=lambda e: (e.source, e.at))


def _tells(event: Event, alone: bool) -> bool:
    """Whether a traceback that never ended tells anything; a notebook's may be a title alone."""
    told = bool(event.frames) or (bool(event.titled) and alone)
    return told and (not event.buried or bool(event.under))


def _cut(event: Event) -> bool:
    """Of a traceback without its last line the type: a notebook names it above, "raise" below."""
    match = _RAISE.match(next((text for text in reversed(event.trace) if text.strip()), ""))
    event.type = event.titled or (match[1] if match else "")
    return match is not None


def _step(lane: _Lane, line: Line) -> Event | None:
    text, lane.half = frames.whole(lane.half, line.text)
    if lane.fresh > MAX_MESSAGE - NEXT and lane.done is not None and _WENT_ON.search(line.raw):
        lane.done.caught = True
    source = not text.strip() or text.startswith("│") or _NUMBERED.match(text)  # rich's, too
    lane.behind += 0 if source else 1
    if line.raw[4:5] == "-" and line.raw[:4].isdecimal():
        lane.tracker = TRACKER.match(line.raw) is not None
    if text.startswith("Stack (most recent call last)"):
        lane.stack = True
    before, clock = lane.record, lane.clock
    if text.strip():
        lane.record = line.raw
        lane.clock = line.time if _ERRED.search(line.raw, 0, 200) else None
    if _START in text:
        event = Event(line, rank=line.rank, traced=True)
        if match := _TITLE.match(text):
            event.titled = match[1]
        if event.rank is None:
            event.rank, lane.spawned = lane.spawned, None
        if event.rank is None and (match := _FAILED.search(f"{before} {line.raw}", 0, 1000)):
            event.rank = int(match[1] or match[2])
        event.ignored, event.caught = lane.ignored, _logged(line) or lane.tracker
        event.clock = clock
        event.cause = lane.done if lane.chained else None
        if event.rank is None and lane.done and (lane.chained or text.startswith("Original ")):
            event.rank = lane.done.rank
        lane.open.append(event)
        lane.fresh, lane.chained, lane.ignored = 0, False, False
        return None
    if any(text.lstrip(" │").startswith(chain) for chain in CHAIN):
        lane.chained, lane.fresh = lane.done is not None, 0
        return None
    if _IGNORED.match(text):
        lane.ignored, lane.fresh = True, 0
        return None
    if lane.debugger and not lane.open and lane.done and _debugged(lane, lane.done, text):
        return None
    if not lane.open and not lane.fresh and (frame := frames.of(text)) and frame[2]:
        lane.open.append(Event(line, rank=line.rank, caught=line.level == "W"))  # it was cut
    if lane.open and (frame := frames.of(text)):
        lane.open[-1].frames.append(frame)
        lane.behind = 0
        lane.open[-1].trace.append(text)
        return None
    if match := _SPAWNED.match(text):
        lane.spawned, lane.fresh = int(match[1]), 0
        return None
    stripped = text.strip(" │")
    if match := _TERMINATE.search(text):
        lane.raised = match[1]
        return None
    if (match := _WHAT.match(text)) and (lane.raised or _GROUP.match(match[1])):
        event = _closed(lane, line, lane.raised or "c10::DistBackendError", match[1])
        event.cause = None  # C++ was not handling any
        if event.rank is None and (told := _GROUP.match(match[1])):
            event.rank = int(told[1])
        return event
    if match := _THREW.search(text):
        return _thrown(lane, line, match[1])
    if not lane.open and (match := _UNCAUGHT.match(text)):
        event = _closed(lane, line, match[1], match[2])
        if event.rank is None and (told := _NAMED.search(text)):
            event.rank = int(told[1])
        return event
    if match := _DEBUGGER.match(text):
        event = _closed(lane, line, match[1], "")
        lane.debugger = True
        return event
    shown = lane.before and _CODE.match(lane.before[-1])
    match = TYPE.match(stripped if lane.open or shown else text)
    bare = shown and lane.before[-1].lstrip().startswith(("assert ", "assert(", "raise "))
    if match and not lane.open and _quoting(lane) and "OutOfMemory" not in match[1]:
        _more(lane, line, text)
        return None
    if match and (lane.open or match[2] or bare or _announced(match)):
        return _closed(lane, line, match[1], match[2] or "")
    named, lane.named = lane.named, None
    if match and match[0].rstrip().endswith(":"):
        lane.named = (line, match[1])
    elif named and not lane.open and text[:4].isspace() and text.strip():
        return _closed(lane, named[0], named[1], stripped)
    if lane.open and lane.open[-1].frames and (match := _DOTTED.match(text)):
        return _closed(lane, line, match[1], match[2])
    if lane.fresh and lane.done is not None:
        _more(lane, line, text)
    elif lane.open:
        trace = lane.open[-1].trace
        trace.append(text)
        if len(trace) > MAX_TRACE:  # a notebook's are long: its beginning and its end tell
            del trace[MAX_TRACE // 2]
    elif not lane.open:
        code = text.startswith("    ") or _CODE.match(text)
        lane.before = [*lane.before[-2:], text] if code else []
    return None


def _debugged(lane: _Lane, event: Event, text: str) -> bool:
    """Whether this is a frame, or its line of source, of what VS Code told above."""
    if frame := frames.of(text):
        event.frames.insert(0, frame)
        event.trace.insert(0, text)
        lane.fresh = 0
    elif event.frames and text.startswith("    "):
        event.trace.insert(1, text)
    else:
        lane.debugger = not event.frames
        return False
    return True


def _thrown(lane: _Lane, line: Line, message: str) -> Event:
    """A watchdog's exception: beside the tracebacks of the main thread, not their end."""
    line = replace(line, marked=False)
    told = _GROUP.search(line.raw)
    rank = int(told[1]) if told else line.rank
    event = Event(line, "c10::DistBackendError", message, last=line, rank=rank)
    if not lane.open:
        lane.done, lane.fresh = event, MAX_MESSAGE
    return event


def _quoting(lane: _Lane) -> bool:
    """Whether the message ends in words for what comes: torch.compile's, of its backend's."""
    return bool(lane.fresh and lane.done is not None and lane.done.message.endswith(" raised:"))


def _announced(match: re.Match[str]) -> bool:
    """Whether this is a class with its module and a colon: its words are on the next lines."""
    return "." in match[1] and match[0].rstrip().endswith(":")


def _logged(line: Line) -> bool:
    """Whether a logger wrote this traceback as a warning or less: it was caught."""
    before = line.text.partition(_START)[0]
    return (
        line.level == "W"
        or bool(re.search(r"WARN|INFO|DEBUG", before))
        or before.startswith(("W1", "W0"))
    )


def _closed(lane: _Lane, line: Line, kind: str, message: str) -> Event:
    event = lane.open.pop() if lane.open else Event(line, rank=line.rank, ignored=lane.ignored)
    if not event.trace:
        event.trace = lane.before
    lane.before = []
    event.type, event.message, event.last = kind, message, line
    event.ignored = event.ignored or kind.endswith("CancelledError")  # asyncio's: never a start
    if event.rank is None:
        event.rank = line.rank
    if lane.chained and event.cause is None and event is not lane.done:
        event.cause = lane.done
    lane.chained, lane.done, lane.raised, lane.ignored = False, event, "", False
    lane.debugger = False
    lane.fresh = MAX_MESSAGE
    return event


def _recorded(event: Event, line: Line) -> bool:
    """Whether a logger wrote the line, and the exception not, or by another level."""
    return bool(line.level) and (line.level in "IW" or line.level != (event.last or line).level)


_BAR = re.compile(r"^[^|\n]{0,80}\b\d{1,3}%\|")  # of tqdm


def _more(lane: _Lane, line: Line, text: str) -> None:
    if lane.done is None or _RECORD.match(line.text) or _recorded(lane.done, line):
        lane.fresh = 0
        return
    if not text.strip() and lane.fresh < MAX_MESSAGE - 1 and len(lane.done.message) > 200:
        lane.fresh = 0
        return
    if not _BAR.match(text):
        lane.done.message += "\n" + text
    lane.fresh -= 1
