"""Which rank a process is, by its number: launchers say whom they started as what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from vlmguard.explain import launcher
from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest, texts
from vlmguard.explain.ended import nodes

_SPAWNED = re.compile(  # DeepSpeed's launcher; py-spy's first line
    r"^(?:([\w.-]{1,80}): ?)?[^\n]{0,80}\b[Pp]rocess (\d{1,9})"
    r"(?: spawned with command)?: [^\n]{0,400}--local[-_]rank(?:=|', '| )(\d{1,4})\b",
    re.M,
)
_MAPPED = re.compile(r"'([\w.-]{1,80})': \[(\d[\d, ]{0,400})\]")  # DeepSpeed's global_rank_mapping
_NODE = re.compile(r"\bnode_rank=(\d{1,4})\b")
_GLOBAL = re.compile(r"\bglobal_ranks=\[(\d[\d, ]{0,400})\]")  # torchrun's agent
_RANKED = (
    re.compile(r"^\(\S{1,60} pid=(?P<p>\d{1,9})[^)\n]{0,40}\) \[[Rr]ank ?(?P<r>\d{1,6})\] "),
    # Ray Train, "(ip=10.0.0.4, pid=812) world_rank=3, …"; NCCL; anybody: (pid, rank).
    re.compile(r"\bip=[\d.]{7,15}, pid=(?P<p>\d{1,9})\) (?:world_)?rank=(?P<r>\d{1,6}),"),
    re.compile(
        r"^\(\S{1,60} pid=(?P<p>\d{1,9})[^)\n]{0,40}\) .{0,200}\[rank=(?P<r>\d{1,6}), world"
    ),
    re.compile(
        r":(?P<p>\d{1,9}):\d{1,9} \[\d{1,3}\] NCCL INFO .{0,80}\brank (?P<r>\d{1,6}) nranks "
    ),
    re.compile(
        r"(?i)\b(?:global_|world_)?rank[ =:]{1,3}(?P<r>\d{1,6})\b[^\n()]{0,40}\(?"
        r"\bpid[ =:]{1,3}(?P<p>\d{2,9})\b"
    ),
    re.compile(
        r"(?i)\bpid[ =:]{1,3}(?P<p>\d{2,9})\b[^\n()]{0,40}(?<![a-z_])(?:global_|world_)?"
        r"rank[ =:]{1,3}(?P<r>\d{1,6})\b"
    ),
)
_TABLE = re.compile(  # torchrun's
    r"rank\s{1,9}: (\d{1,6}) \(local_rank: \d{1,4}\)\s{1,40}"
    r"exitcode\s{1,9}: -?\d{1,4} \(pid: (\d{1,9})\)"
)
_KILLED = re.compile(  # the kernel, Ray's memory monitor
    r"\bKilled process (\d{1,9})\b|\boom-kill:.{1,400},pid=(\d{1,9})\b"
    r"|, pid=(\d{1,9}), memory used=.{1,20}\) was running"
)
_ACTOR = re.compile(r"^\([\w.:]{1,60}(?:\([\w.-]{1,60}\))? pid=(\d{1,9}), ip=([\d.]{7,15})\)")
_WHO = (
    re.compile(r"^\([\w.:]{1,60}(?:\([\w.-]{1,60}\))? pid=(\d{1,9})"),  # Ray
    re.compile(r"\b\S{1,80}:(\d{1,9}):\d{1,9} \[\d{1,3}\] (?:\S{1,80} )?NCCL WARN "),
    re.compile(
        r"\b[Pp]rocess (\d{1,9})(?: \([\w.]{1,40}\))? (?:exits|exited|terminated|died|was killed)"
    ),
    re.compile(r"(?i)\bpid[ =:]{1,3}(\d{2,9})\b"),
    re.compile(r"\b[\w.-]{1,20}\[(\d{1,9})\]:? (?:segfault at|general protection|trap )"),  # kernel
)
_WARNED = re.compile(r"\S{1,80}:(\d{1,9}):\d{1,9} \[\d{1,3}\] \S{0,80} ?NCCL WARN (.{8,300})")
_LAST = re.compile(r"Last error:\s{1,4}(.{8,300})")


def rank(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """The rank of the one process that the failure's own lines name."""
    if (one := _placed(answer, digests)) is not None:
        return one
    who = set(_named(answer, digests))
    known = ranks(
        [d for d in digests if any(e.code in launcher.KILLED for e in d.exits)] or digests
    )
    found = {known[pid] for pid in who if pid in known}
    return only(found) if found else _by_local(digests)


def only(found: Set[int]) -> int | None:
    """The one that all name, if they name no other."""
    return next(iter(found)) if len(found) == 1 else None


def _placed(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """The rank of Ray's actor by its process and its node: nodes may have numbers in common."""
    match = _ACTOR.match(answer.pick.line.raw) if answer.pick is not None else None
    if match is None:
        return None
    place = re.compile(
        rf"\bip={re.escape(match[2])}, pid={match[1]}\) (?:world_)?rank=(\d{{1,6}}),"
    )
    return only({int(m[1]) for d in digests for m in place.finditer(d.text)})


def _by_local(digests: Sequence[Digest]) -> int | None:
    """The rank of the one process that a launcher saw fail, by its number on its node."""
    found = {
        of_local(ended.local, digest.text)
        for digest in digests
        for ended in digest.exits
        if ended.local is not None and ended.code not in (-15, -6)
    }
    return found.pop() if len(found) == 1 else None


def ranks(digests: Sequence[Digest]) -> dict[int, int]:
    """Process → rank; a number that two ranks have, on two nodes, is nobody's."""
    found: dict[int, set[int]] = {}
    several = nodes(digests)
    for digest in digests:
        for pid, one in (*_started(digest.text, several), *_said(digest.text)):
            found.setdefault(pid, set()).add(one)
    return {pid: few.pop() for pid, few in found.items() if len(few) == 1}


def of_local(local: int, text: str) -> int | None:
    """The rank that torchrun's agent gave to the process ``local`` of its node."""
    told = {match[1] for match in _GLOBAL.finditer(text)}
    numbers = _numbers(told.pop()) if len(told) == 1 else []
    return numbers[local] if local < len(numbers) else None


def _numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)]


def _started(text: str, several: bool) -> Iterator[tuple[int, int]]:
    """DeepSpeed's launcher says the local rank; of several nodes, which ranks each has."""
    mapped = {match[1]: _numbers(match[2]) for match in _MAPPED.finditer(text)}
    here = {int(match[1]) for match in _NODE.finditer(text)}
    node = here.pop() if len(here) == 1 else len(mapped)
    own = list(mapped.values())[node] if node < len(mapped) else []
    for match in _SPAWNED.finditer(text):
        local = int(match[3])
        given = mapped.get(match[1] or "", own)
        if local < len(given):
            yield int(match[2]), given[local]
        elif not several and len(mapped) < 2:
            yield int(match[2]), local


def _said(text: str) -> Iterator[tuple[int, int]]:
    lines = [line for line in text.split("\n") if "pid" in line.lower() or "NCCL INFO" in line]
    for line in lines:
        for pattern in _RANKED:
            if match := pattern.search(line, 0, 1000):
                yield int(match["p"]), int(match["r"])
                break
    for match in _TABLE.finditer(text):
        yield int(match[2]), int(match[1])


def _named(answer: Answer, digests: Sequence[Digest]) -> Iterator[int]:
    """The processes that the failure's lines name."""
    code = answer.known.code if answer.known is not None else ""
    if code == "VG532":
        killed = [match for text in texts(digests) for match in _KILLED.finditer(text)]
        yield from (int(match[match.lastindex or 1]) for match in killed)
        return
    if answer.pick is None:
        return
    event = answer.pick.event
    raw = (event.last or event.line).raw if event is not None else answer.pick.line.raw
    if match := next((m for pattern in _WHO if (m := pattern.search(raw, 0, 1000))), None):
        yield int(match[1])
        return
    if last := _LAST.search(answer.facts.message.replace("\n", " ")):
        said = last[1].strip()
        for digest in digests:
            for warned in _WARNED.finditer(digest.text):
                if said.startswith(warned[2].strip()[:60]):
                    yield int(warned[1])
