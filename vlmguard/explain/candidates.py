"""What may have started a failure: exceptions and telling lines that the run did not survive."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from vlmguard.explain import parting
from vlmguard.explain.classify import NO_ROW, classify
from vlmguard.explain.digest import Digest
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known
from vlmguard.explain.lines import Line

_ORDER = {"cause": 0, "hang": 1, "peer": 2, "end": 3}
WRAPPERS = (
    "ChildFailedError",
    "CalledProcessError",
    "ProcessRaisedException",
    "ProcessExitedException",
    "SystemExit",
    "AlgorithmError",  # SageMaker's, AzureML's: what ran there says more
    "UnexpectedStatusException",
    "ActivityFailedException",
)
_PASSED_ON = ("failed to import on the worker", "failed to create actor")  # Ray's, for another's
_SCHEDULER = ("VG530", "VG531")
_TRACKER = "VG565"
_ENGINE = "VG566"
# What a package calls to build its own code: no launcher's words for a rank.
_BUILD = re.compile(r"(?:\['|/)(?:ninja|g?cc|[cg]\+\+|nvcc|ptxas)'")
_ENDED = "VG569"  # of what had come to its end nothing is lost
_CAUGHT = re.compile(r"\s{0,4}Caught \w{1,60} in (?:DataLoader worker|replica|pin memory)")
_ATTEMPT = re.compile(r"(?i)\b(?:attempt|try|retry|trial) (\d{1,3})(?: of |/)(\d{1,3})\b")
_REFUSED = ".py: error: "  # argparse's, behind which a program ends
_STARTERS = ("torch/distributed/", "accelerate/commands/", "deepspeed/launcher/", "cli/main.py")
STEPS_THAT_PROVE = 2  # another rank's bar may grow by one after this one's end, not by two
WORK = 10  # lines with a bar
NEAR = 30  # lines between two exceptions of one stream that belong together


@dataclass
class Candidate:
    """One thing that may have started it."""

    known: Known | None
    line: Line
    event: Event | None = None
    rank: int | None = None

    @property
    def order(self) -> int:
        return _ORDER[self.known.order] if self.known else 0

    @property
    def at(self) -> int:
        return self.event.at if self.event else self.line.at

    @property
    def key(self) -> tuple[str, str]:
        if self.known:
            return self.known.code, ""
        return "", self.event.type if self.event else self.line.text[:40]


def collected(digests: Sequence[Digest], catalogue: Sequence[Known]) -> list[Candidate]:
    found: list[Candidate] = []
    for digest in digests:
        raised = [e for e in digest.events if not e.caught and not survived(e.at, digest, digests)]
        raised = [e for e in raised if not (_interrupted(e.type, e.at, digest) or _tried_again(e))]
        raised = [e for e in raised if not (_unread(e) and _begun_again(e.at, digest.events))]
        for event in raised:
            if event.message.startswith(NO_ROW) and event.cause is None:
                event.cause = _logged_before(event, digest.events)
        inner = {id(e.cause) for e in raised if e.cause is not None and e.type}
        here = [
            Candidate(classify(e, catalogue), e.line, e, e.rank)
            for e in raised
            if id(e) not in inner
            and (not launchers(e) or _BUILD.search(e.message))
            and not _wraps(e, raised)
            and not _passed_on(e)
        ]
        here = [c for c in here if c.event is None or not c.event.ignored or _ended(c, digest)]
        here = [c for c in here if c.event is None or not c.event.buried or c.known is not None]
        if digest.exits:  # a traceback without an end beside a launcher's words is the launcher's
            here = [c for c in here if c.event is None or c.event.type or c.known is not None]
        here = _marked(here)
        found += _last_of_each(here, digest)
        found += _loose(digest, digests)
        aside = [(e.line.at, e.at) for e in digest.events if e.ignored]
        found += [
            Candidate(known, line, None, line.rank)
            for line, known in digest.telling
            if not (known.order == "peer" and any(a <= line.at <= b for a, b in aside))
            and not _interrupted(line.text, line.at, digest)
            and not (_outlived if known.code in _SCHEDULER else survived)(line.at, digest, digests)
            and not _synced(known, line, digest)
            and not (_REFUSED in line.raw and _begun_again(line.at, digest.events))
            and not (known.code == _ENDED and digest.progress.over(line.at))
        ]
    if not found and not any(d.exits or d.progress.done or d.progress.steps for d in digests):
        said = (d.failed for d in digests if d.failed is not None)
        found = [Candidate(None, line, None, line.rank) for line in said][:1]
    return found


def with_parting(found: list[Candidate], digests: Sequence[Digest]) -> list[Candidate]:
    """These, and what a rank said last that ended itself, where the others only lost it."""
    own = [c for c in found if c.order <= 1]
    if found and not own and (line := parting.words({c.rank for c in found}, digests)) is not None:
        return [*found, Candidate(None, line, None, line.rank)]
    return found


def _logged_before(event: Event, events: Sequence[Event]) -> Event | None:
    """What the last row failed with, as a logger wrote it before there was none left."""
    rows = [e for e in events if e.caught and e.source == event.source and e.at < event.at]
    return next((e for e in reversed(rows) if any("dataset" in f[0] for f in e.frames)), None)


def _synced(known: Known, line: Line, digest: Digest) -> bool:
    """Whether it is the tracker's, and the tracker had all in the end."""
    return known.code == _TRACKER and digest.progress.synced > line.at


def _loose(digest: Digest, digests: Sequence[Digest]) -> list[Candidate]:
    """The first line with an exception's words, where ranks wrote into one another's."""
    lasting = (
        (line, known)
        for line, known in digest.loose
        if not survived(line.at, digest, digests) and not _synced(known, line, digest)
    )
    return [Candidate(known, line, None, line.rank) for line, known in lasting][:1]


def _marked(here: list[Candidate]) -> list[Candidate]:
    """torch marks what ends a rank; beside that, earlier exceptions without a mark were caught."""
    ends = [c.at for c in here if c.line.marked and c.order == 0]
    if not ends:
        return here
    engine = any(c.known and c.known.code == _ENGINE and c.line.marked for c in here)
    return [c for c in here if c.line.marked or c.at > max(ends) or (engine and of_engine(c))]


def of_engine(candidate: Candidate) -> bool:
    """Why an engine's own process failed: the rank that waited for it only says that it did."""
    line, known = candidate.line, candidate.known
    if candidate.event is None or known is None or known.code == _ENGINE or candidate.order:
        return False
    return candidate.rank is None and (line.lane != "" or line.level == "E")


def _unread(event: Event) -> bool:
    """A script that Python could not read: it ran nothing."""
    unread = event.name in ("SyntaxError", "IndentationError", "TabError")
    return unread and event.rank is None


def _begun_again(at: int, events: Sequence[Event]) -> bool:
    """Whether a program ran after one that refused its arguments, or could not be read: the log
    holds more than one start. What a launcher raises behind its ranks is none."""
    later = (e for e in events if e.at > at and e.frames and e.type and not launchers(e))
    return any(
        not _unread(e) and not any(place in path for path, _, _ in e.frames for place in _STARTERS)
        for e in later
    )


def launchers(event: Event) -> bool:
    """What a launcher raises for a rank that failed: not the failure itself."""
    return event.name in WRAPPERS


def _wraps(event: Event, others: list[Event]) -> bool:
    """A worker's or a replica's exception is raised again in the rank; the original follows it."""
    if not _CAUGHT.match(event.message):
        others = [e for e in others if e is not event and not launchers(e)]
        said = any(e.type or e.at > event.at for e in others)
        return not event.type and bool(event.frames) and said
    return any(e is not event and e.at >= event.at and e.type == event.type for e in others)


def _passed_on(event: Event) -> bool:
    return any(text in event.message for text in _PASSED_ON)


def _ended(candidate: Candidate, digest: Digest) -> bool:
    """A side thread's exception counts only where it is known and all that the log has.

    A web page (LLaMA-Factory's) trains in a thread: its frames tell.
    """
    known = candidate.known is not None and candidate.known.order in ("cause", "hang")
    if any("thread exited unexpectedly" in e.message for e in digest.events):
        return known  # a loader's side thread: the main one only says that it is gone
    frames = candidate.event.frames if candidate.event else []
    if any(name == "train" or name.startswith("run_") for _, _, name in frames):
        return known and all(launchers(e) for e in digest.events if e.at > candidate.at)
    told = digest.progress
    after = told.after(candidate.at) or told.finished(candidate.at)
    if any(name == "__getitem__" for _, _, name in frames) and not after:
        return all(launchers(e) for e in digest.events if e.at > candidate.at)  # a loader's thread
    # Of a log without steps or an end a wait or an op that was not built tells enough; what a
    # tracker's thread or a destructor says at the end of a healthy run does not.
    enough = candidate.known is not None and (
        candidate.known.order == "hang" or candidate.known.code == "VG557"
    )
    ended = bool(digest.exits) or (enough and not (told.steps or told.done))
    return known and ended and len(digest.events) == 1


def survived(at: int, digest: Digest, digests: Sequence[Digest]) -> bool:
    """Whether the run went on after it: more steps, or an end that is marked."""
    place = bisect_left(digest.ends, at)
    ends = digest.ends[place : place + 1]  # the first of them behind it
    after = digest.ends[-1] if ends else at
    told = digest.progress
    if told.finished(after) or told.after(after) >= STEPS_THAT_PROVE:
        return True
    if ends and told.after(at) - told.after(ends[0]) >= STEPS_THAT_PROVE:
        return True  # many steps between it and the end: not what ended the run
    return _others_ended(digest, digests)


def _others_ended(digest: Digest, digests: Sequence[Digest]) -> bool:
    """Whether a log that tells no step is beside one that marks its end, and nothing failed."""
    if digest.progress.steps or digest.progress.done:
        return False
    failed = any(d.exits or d.stopped for d in digests)
    return not failed and any(d.progress.done for d in digests if d is not digest)


def _interrupted(text: str, at: int, digest: Digest) -> bool:
    """A Ctrl-C after which the script took up its next piece of work: many bars follow."""
    later = sum(1 for place in digest.progress.bars if place > at)
    return text.strip() == "KeyboardInterrupt" and not digest.exits and later >= WORK


def _tried_again(event: Event) -> bool:
    """Whether what printed it says under it that it was one of several attempts, and no last."""
    match = _ATTEMPT.search(event.message.partition("\n")[2][:2000])
    return match is not None and int(match[1]) < int(match[2])


def _driver(candidate: Candidate) -> bool:
    """An exception that a Ray driver passes on: a worker's own one comes long before it."""
    event = candidate.event
    return event is not None and any("RayTaskError(" in text for text in event.trace)


def _outlived(at: int, digest: Digest, digests: Sequence[Digest]) -> bool:
    """A scheduler's word ends a run, though some steps more are taken: only a new start tells."""
    told = digest.progress
    loaded = told.loading is not None and told.loading.at > at
    anew = loaded and told.after(at) >= STEPS_THAT_PROVE
    begun = anew or any(place > at for place in told.restarts)
    return told.finished(at) or begun or _others_ended(digest, digests)


def _last_of_each(here: list[Candidate], digest: Digest) -> list[Candidate]:
    """Of each stream the exceptions that ended it: the last, and those close before it."""
    streams: dict[str, list[Candidate]] = {}
    for candidate in here:
        streams.setdefault(candidate.line.lane, []).append(candidate)
    found: list[Candidate] = []
    for stream in streams.values():
        kept = [stream[-1]]
        for candidate in reversed(stream[:-1]):
            event, after = candidate.event, kept[0].line
            last = event.last if event and event.last else candidate.line
            stepped = digest.progress.after(last.at) > digest.progress.after(after.at)
            near = after.number - last.number <= NEAR and not stepped
            first = candidate.order == 0 and not any(k.order == 0 for k in kept)
            behind = _driver(kept[-1]) and candidate.known is not None and candidate.order == 0
            if not (candidate.line.marked or near or first or behind):
                break
            kept.insert(0, candidate)
        found += kept
    return found
