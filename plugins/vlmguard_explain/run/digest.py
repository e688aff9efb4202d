"""One log, reduced to what the judge needs: after this its lines are let go."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.lines import appended, lines, quoted
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.match.catalogue import Known, by_code, load
from vlmguard_explain.run import endings, progress
from vlmguard_explain.source import clean
from vlmguard_explain.source.log_reader import Piece
from vlmguard_explain.source.sources import Source
from vlmguard_explain.tracebacks import events
from vlmguard_explain.tracebacks.event import Event, flat

_P, _T = patterns("run.digest"), words("run.digest")
MOST = 400  # exceptions, or telling lines, at most
QUOTED = 3  # lines of a quotation at most; a run prints more
RECENT = 40  # last lines of each rank
LAST = 60  # lines to search for loose words: earlier ones did not end the run
_NOT_STARTED = "VG590"
BEFORE, AFTER = 5, 3  # lines to show around the possible failure


@dataclass
class Digest:
    """What one log tells."""

    source: Source
    number: int
    events: list[Event] = field(default_factory=list)  # exceptions, in order
    # lines with a pattern of the catalogue
    matched: list[tuple[Line, Known]] = field(default_factory=list)
    exits: list[endings.Exit] = field(default_factory=list)
    progress: progress.Progress = field(default_factory=progress.Progress)
    watched: list[Line] = field(default_factory=list)  # lines of NCCL's watchdog
    text: str = ""  # the log's beginning and end, for facts
    recent: dict[int | None, deque[Line]] = field(default_factory=dict)  # each rank's last lines
    # places at which a launcher began to end the processes
    stopped: list[int] = field(default_factory=list)
    unresolved: frozenset[str] = frozenset()  # hosts whose name no rank could resolve
    # lines with an exception's words but not its form, because ranks mixed their lines; only if
    # the log has no other exception
    fragments: list[tuple[Line, Known]] = field(default_factory=list)
    guard_lines: list[Line] = field(default_factory=list)  # lines that vlmguard's guard wrote
    # how many earlier runs this file has; ended_before: the last line of these
    before: int = 0
    ended_before: Line | None = None
    first: int = 1  # the number, from 1, of the line where this run begins
    around: list[Line] = field(default_factory=list)  # the lines around the possible failure

    @functools.cached_property
    def finals(self) -> dict[int | None, Line]:
        """The last line of each rank."""
        return {rank: lines[-1] for rank, lines in self.recent.items()}

    @functools.cached_property
    def ends(self) -> list[int]:
        """Places at which a launcher ended processes or told how one ended, in order."""
        return sorted([*self.stopped, *(e.line.at for e in self.exits)])


def of(source: Source, number: int, pieces: Sequence[Piece]) -> Digest:
    """Digest what was kept of one log."""
    digest = Digest(source, number)
    everything = list(lines.lines(pieces, number, source.rank))
    kept, digest.before, digest.ended_before = appended.last(
        quoted.without(everything, quoted.framed(everything))
    )
    digest.first = kept[0].number if digest.before and kept else 1
    digest.progress = progress.of(kept)
    if digest.progress.first is not None:
        kept = quoted.without(kept, quoted.fenced(kept, digest.progress.first))
    raised = [e for e in events.exceptions(kept) if e.type or e.frames]
    few = len(raised) <= MOST
    digest.events = raised if few else raised[: MOST // 4] + raised[-MOST * 3 // 4 :]
    digest.exits = endings.exits(kept)
    digest.watched = [line for line in kept if any(word in line.raw for word in _T.watched)]
    digest.stopped = [line.at for line in kept if any(word in line.raw for word in _T.stopping)]
    digest.guard_lines = [line for line in kept if "vlmguard: VG" in line.raw][:MOST]
    digest.matched = list(_matched(kept))[:MOST]
    digest.unresolved = _unresolved(kept)
    _last_resort(digest, kept)
    if not _said(digest, kept[-LAST:]):
        digest.fragments = list(_fragments(kept, digest))[:MOST]
    digest.around = list(_around(kept, digest))
    ends = [clean.text(piece.data) for piece in (*pieces[:1], *pieces[-1:])]
    if digest.before:  # an earlier run's facts do not count
        ends = [line.raw for line in (*kept[:4000], *kept[-2000:])]
    digest.text = "\n".join(dict.fromkeys(ends))
    for line in everything:
        if line.text.strip() and line.number >= digest.first:
            digest.recent.setdefault(line.rank, deque(maxlen=RECENT)).append(line)
    return digest


def _last_resort(digest: Digest, kept: Sequence[Line]) -> None:
    """Of a log without an exception, a pattern, an end: a shell's last word, that what it should
    start is not there."""
    run = digest.progress
    found = digest.matched or digest.events or digest.exits
    said = [line for line in kept if line.text.strip()]
    if not said or found or run.steps or run.done or run.losses:
        return
    if _P.refused.match(said[-1].text.strip()):
        digest.matched = [(said[-1], by_code()[_NOT_STARTED])]


def _unresolved(kept: Sequence[Line]) -> frozenset[str]:
    """A name that has no address; IPv6 alone lacks one often: then a connection is tried."""
    text = "\n".join(line.raw for line in kept if "[c10d]" in line.raw)
    return frozenset(_P.no_name.findall(text)) - frozenset(_P.named.findall(text))


def _said(digest: Digest, late: Sequence[Line]) -> bool:
    """Whether an exception (a launcher's own apart) or a telling line stands near the end."""
    start = late[0].at if late else 0
    raised = [e for e in digest.events if e.at >= start and e.type]
    own = [e for e in raised if not e.type.endswith(("ChildFailedError", "CalledProcessError"))]
    return bool(own) or any(line.at >= start for line, _ in digest.matched)


def _fragments(kept: Sequence[Line], digest: Digest) -> Iterable[tuple[Line, Known]]:
    causes = [known for known in load() if known.order == "cause"]
    said = [line.raw for line in kept if line.text.strip()]
    # Someone copied only a message, without its exception's type and traceback.
    quotes = len(said) <= QUOTED and not any("%|" in raw or "arn" in raw for raw in said)
    quotes = quotes and not digest.progress.steps
    for line in kept[-LAST:]:
        raw = line.raw
        # DeepSpeed's handler prints the command, not the failure.
        quiet = _warned(line, "") or "sigkill_handler] [" in raw
        if quiet or _tracked(raw) or not (quotes or _P.words.search(raw)):
            continue
        message = flat(raw)
        bears = [(k.narrow, len(s.text), k) for k in causes if (s := k.match(message))]
        if bears:
            yield line, max(bears, key=lambda b: b[:2])[2]


def _matched(kept: Sequence[Line]) -> Iterable[tuple[Line, Known]]:
    everything = "\n".join(line.raw for line in kept)
    texts = [(one.text, known) for known in load() for one in known.by_place["line"]]
    present = [(text, known) for text, known in texts if text in everything]
    for line in kept if present else ():
        raw = line.raw
        if _tracked(raw) or _quiet(line) or _P.former.search(raw):
            continue
        signalled = "torch.distributed.elastic" in raw  # here a launcher's warning means an end
        bears = [
            (known.narrow, len(text), known)
            for text, known in present
            if text in raw
            and ((known.order == "end" and signalled) or not _warned(line, text))
            and known.match_line(flat(raw))
        ]
        if bears:
            yield line, max(bears, key=lambda b: b[:2])[2]


def _tracked(raw: str) -> bool:
    """Whether a tracker's page or a debugger of a log viewer wrote it."""
    return "():" in raw and events.TRACKER.match(raw) is not None


def _quiet(line: Line) -> bool:
    """Whether its level is a warning's or less; torchrun warns of the signal that it got."""
    return line.level in ("W", "I") and _T.signalled not in line.raw


def _warned(line: Line, text: str) -> bool:
    """The same, or by its words."""
    return _quiet(line) or any(w in line.raw[:120] and w not in text for w in _T.quiet)


def _around(kept: Sequence[Line], digest: Digest) -> Iterable[Line]:
    """The lines that may be the failure, and those before and behind each; no bar."""
    ends = (*(e.line for e in digest.exits), *(e.line for e in digest.events))
    told = {line.place for line in (*ends, *(line for line, _ in digest.matched))}
    before, left = deque[Line](maxlen=BEFORE), 0
    for line in kept:
        if not line.text.strip() or "%|" in line.text:
            continue
        if line.place in told:
            yield from before
            before.clear()
            left = AFTER + 1
        if left:
            yield line
            left -= 1
        else:
            before.append(line)
