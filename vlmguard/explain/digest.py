"""One log, reduced to what the judge needs: after this its lines are let go."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from vlmguard.explain import (
    clean,
    events,
    gist,
    launcher,
    lines,
    progress,
    quoted,
    runs,
    shell,
    stacks,
    typed,
)
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known, flat, within
from vlmguard.explain.launcher import Exit
from vlmguard.explain.lines import Line
from vlmguard.explain.progress import Progress
from vlmguard.explain.reader import Reading
from vlmguard.explain.sources import Source

# What became of another attempt, as the one behind it tells when it begins.
_FORMER = re.compile(
    r"(?i)\b(?:previous|former|earlier|prior) (?:attempt|run|job|try|session|allocation)\b"
)
_QUIET = ("WARNING", "[WARN", "WARN:", "[INFO", "Warning:", " INFO ", "[DEBUG")
MAX_TELLING = 400
MAX_EVENTS = 400
QUOTED = 3  # lines; a run says more
RECENT = 40  # lines of each rank
SHAPES = 1024  # of each rank's lines
_MASKED = dict.fromkeys(map(ord, "0123456789abcdefx"))  # numbers, pointers
LAST = 60  # lines in which loose words count: earlier ones did not end the run


@dataclass
class Digest:
    """What one log tells.

    Attributes:
        events: exceptions, in order.
        telling: lines that bear a sign of a failure of the catalogue.
        watched: lines of NCCL's watchdog.
        text: the log's beginning and end, for facts.
        stopped: places at which a launcher began to end the processes.
        unresolved: hosts whose name no rank could resolve.
        loose: lines that hold an exception's words but not its form, as ranks write into one
            another; only where the log has no other exception.
        ours: lines that vlmguard's guard wrote.
        finals: the last line of each rank; ``recent``: its last lines; ``shapes``: of all of them.
        stacks: of processes that somebody looked into while they hung.
        failed: a logger's error, where the log has hardly anything else.
        before: how many runs stand in this file before the one that is told; ``ended_before``: the
            line with which the last of them ended, where that is told.
        first: the line, from 1, where the one that is told begins.
        gist: the lines that tell what the run did.
    """

    source: Source
    number: int
    reading: Reading
    events: list[Event] = field(default_factory=list)
    telling: list[tuple[Line, Known]] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    watched: list[Line] = field(default_factory=list)
    text: str = ""
    finals: dict[int | None, Line] = field(default_factory=dict)
    recent: dict[int | None, deque[Line]] = field(default_factory=dict)
    shapes: dict[int | None, set[int]] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    unresolved: frozenset[str] = frozenset()
    loose: list[tuple[Line, Known]] = field(default_factory=list)
    ours: list[Line] = field(default_factory=list)
    stacks: list[stacks.Stack] = field(default_factory=list)
    failed: Line | None = None
    before: int = 0
    ended_before: Line | None = None
    first: int = 1
    gist: gist.Gist = field(default_factory=gist.Gist)

    @functools.cached_property
    def ends(self) -> list[int]:
        """Places at which a launcher ended processes or told how one ended, in order."""
        return sorted([*self.stopped, *(e.line.at for e in self.exits)])


_NOT_STARTED = "VG590"
_NO_NAME = re.compile(r"network addresses? of \(([^,()]{1,200}), \d{1,5}\) cannot be retrieved")
_NAMED = re.compile(r"failed to connect to \[?([^\]\s]{1,200})\]?:\d")
_WORDS = re.compile(
    r"(?:Error|Exception|ERROR|FATAL|CRITICAL|FAILED|crashed)\b"
    r"|\bCheck failed: |\bTest (?:CUDA|NCCL) failure "  # glog's end of a process, nccl-tests'
    r"|\b(?:CUDA|NCCL|cuBLAS|cuDNN) error: "  # torch's, without the exception's type
)
_SIGNALLED = "death signal"  # torchrun says as a warning that it was told to end
_STOPPING = (
    "Killing subprocess",
    "Sending process ",
    "closing signal SIGTERM",
    "ChildFailedError",
    "CalledProcessError: Command",
    "srun: error",
    "Terminating process",
    "[1]: Killed",
)


def of(source: Source, number: int, reading: Reading, catalogue: Sequence[Known]) -> Digest:
    """Digest one reading."""
    digest = Digest(source, number, reading)
    everything = list(lines.lines(reading.pieces, number, source.rank))
    kept, digest.before, digest.ended_before = runs.last(quoted.spoken(everything))
    digest.first = kept[0].number if digest.before and kept else 1
    everything = [line for line in everything if line.number >= digest.first]
    digest.progress = progress.of(kept)
    kept = quoted.unfenced(kept, digest.progress.first)
    if len(kept) <= QUOTED:  # a quotation's own margin
        kept = [replace(line, text=line.text.lstrip(" ")) for line in kept]
    elif sum(1 for line in kept if line.text.strip()) <= QUOTED:
        kept = [_unmargined(line) for line in kept]
    raised = [e for e in events.exceptions(kept) if e.type or e.frames]
    digest.events = raised if len(raised) <= MAX_EVENTS else raised[:100] + raised[-300:]
    digest.exits = launcher.exits(kept)
    digest.gist = gist.of(kept, shape)
    digest.watched = list(_watched(kept))
    digest.stacks = stacks.of(kept)
    digest.stopped = [line.at for line in kept if any(word in line.raw for word in _STOPPING)]
    digest.ours = [line for line in kept if "vlmguard: VG" in line.raw][:MAX_TELLING]
    digest.telling = list(_telling(kept, catalogue))[:MAX_TELLING]
    _last_resort(digest, kept, catalogue)
    digest.unresolved = _unresolved(kept)
    if not _said(digest, kept[-LAST:]):
        digest.loose = list(_loose(kept, catalogue, bool(digest.progress.steps)))[:MAX_TELLING]
    ends = [clean.text(piece.data) for piece in (*reading.pieces[:1], *reading.pieces[-1:])]
    if digest.before:  # the facts of an earlier run are not this one's
        ends = [line.raw for line in (*kept[:4000], *kept[-2000:])]
    digest.text = "\n".join(dict.fromkeys(ends))
    for line in everything:
        if line.text.strip():
            digest.finals[line.rank] = line
            digest.recent.setdefault(line.rank, deque(maxlen=RECENT)).append(line)
            known = digest.shapes.setdefault(line.rank, set())
            if len(known) < SHAPES:
                known.add(shape(line.text))
    return digest


def _unmargined(line: Line) -> Line:
    """An exception's line without what a quotation put before it; source keeps its own."""
    text = line.text.lstrip(" ")
    return replace(line, text=text) if events.TYPE.match(text) else line


def shape(text: str) -> int:
    """What a line has in common with the same line of another rank or step."""
    said = text.partition("NCCL ")[2] if "NCCL " in text else text  # without its host
    return hash(said.strip()[:200].translate(_MASKED))


def _last_resort(digest: Digest, kept: Sequence[Line], catalogue: Sequence[Known]) -> None:
    """What a log says that has no exception, no sign, no end: a shell's or a logger's last word."""
    told = digest.progress
    if digest.telling or digest.events or digest.exits or digest.stacks or told.steps or told.done:
        return
    if told.losses:
        return
    if (line := shell.refused(kept)) is not None:
        digest.telling = [(line, k) for k in catalogue if k.code == _NOT_STARTED]
    else:
        digest.failed = shell.failed(kept)


def _unresolved(kept: Sequence[Line]) -> frozenset[str]:
    """A name that has no address; IPv6 alone lacks one often: then a connection is tried."""
    texts = [line.raw for line in kept if "[c10d]" in line.raw]
    unknown = {match[1] for text in texts if (match := _NO_NAME.search(text))}
    tried = {match[1] for text in texts if (match := _NAMED.search(text))}
    return frozenset(unknown - tried)


def _said(digest: Digest, late: Sequence[Line]) -> bool:
    """Whether an exception (a launcher's own apart) or a telling line stands near the end."""
    start = late[0].at if late else 0
    raised = [e for e in digest.events if e.at >= start and e.type]
    own = [e for e in raised if not e.type.endswith(("ChildFailedError", "CalledProcessError"))]
    return bool(own) or any(line.at >= start for line, _ in digest.telling)


def _loose(
    kept: Sequence[Line], catalogue: Sequence[Known], stepped: bool
) -> Iterable[tuple[Line, Known]]:
    causes = [known for known in catalogue if known.order == "cause"]
    quoted = not stepped and _quoted(kept)
    for line in kept[-LAST:]:
        quiet = _quiet(line.raw, "") or (line.level and line.level in "WI")
        quiet = quiet or "sigkill_handler] [" in line.raw  # a command, not what became of it
        quiet = quiet or ("():" in line.raw and events.TRACKER.match(line.raw) is not None)
        if quiet or not (quoted or _WORDS.search(line.raw)):
            continue
        message = flat(line.raw)
        bears = [(k.narrow, len(s.text), k) for k in causes if (s := k.match(message))]
        if bears:
            yield line, max(bears, key=lambda b: b[:2])[2]
        elif quoted and (known := typed.told(message, causes)) is not None:
            yield line, known


def _quoted(kept: Sequence[Line]) -> bool:
    """Whether someone copied a message alone, without its exception's type and traceback."""
    said = [line.raw for line in kept if line.text.strip()]
    return len(said) <= QUOTED and not any("%|" in raw or "arn" in raw for raw in said)


def _watched(kept: Sequence[Line]) -> Iterable[Line]:
    """Lines of NCCL's watchdog; what a terminal broke in two is put together again."""
    for number, line in enumerate(kept):
        if "WorkNCCL(" not in line.raw and "last enqueue" not in line.raw:
            continue
        more = kept[number + 1].raw if number + 1 < len(kept) else ""
        cut = ")" not in line.raw.partition("WorkNCCL(")[2] or line.raw.endswith("last enqueue")
        yield (
            replace(line, raw=line.raw.rstrip() + more)
            if cut and not more.startswith("[")
            else line
        )


def _telling(kept: Sequence[Line], catalogue: Sequence[Known]) -> Iterable[tuple[Line, Known]]:
    signs = [(s.text, known) for known in catalogue for s in known.line_signs]
    everything = "\n".join(line.raw for line in kept)
    present = [(text, known) for text, known in signs if within(text, everything)]
    if not present:
        return
    for line in kept:
        raw = line.raw
        if line.level and line.level in "WI" and _SIGNALLED not in raw:
            continue
        if ("():" in raw and events.TRACKER.match(raw)) or _FORMER.search(raw):
            continue
        bears = [
            (known.narrow, len(text), known)
            for text, known in present
            if within(text, raw)
            and known.match_line(flat(raw))
            and (_ended(known, raw) or not _quiet(raw, text))
        ]
        if bears:
            yield line, max(bears, key=lambda b: b[:2])[2]


def _ended(known: Known, raw: str) -> bool:
    """A launcher's warning that it got a signal is its end."""
    return known.order == "end" and "torch.distributed.elastic" in raw


def _quiet(raw: str, text: str) -> bool:
    """Whether a logger called it a warning or less."""
    return any(word in raw[:120] and word not in text for word in _QUIET)


def texts(digests: Sequence[Digest]) -> list[str]:
    """What is kept of the logs: their beginnings and ends, and the telling lines between."""
    return [d.text for d in digests] + [line.raw for d in digests for line, _ in d.telling]
