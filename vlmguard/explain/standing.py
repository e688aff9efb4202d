"""Who stands elsewhere than the others where a log just ends: last lines, steps, NCCL's start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vlmguard.explain import progress, watchdog
from vlmguard.explain.digest import SHAPES, Digest, shape
from vlmguard.explain.lines import Line

_NUMBER = re.compile(r"0x[0-9a-f]{4,16}|\d{1,18}")
_PLACE = re.compile(
    r"^\S{1,90}:\d{1,9}:\d{1,9} \[\d{1,3}\] (?=NCCL )"
)  # NCCL's host, process, card
_HOST = re.compile(
    r"^(\S{1,60}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL INFO [^\n]{0,300}Init START", re.M
)
_OWN = re.compile(r"(?i)\brank[ :=_]{0,2}\d{1,5}\b|\bcuda:\d{1,3}\b")
_INIT = re.compile(
    r"\brank (\d{1,6}) nranks (\d{1,6}) .{0,120}?commId (0x[0-9a-f]{4,20}) - Init (START|COMPLETE)"
)
_WARNED = re.compile(r"(?i)\bwarn|Warning|^\[?W\d{4}\b|\[W\d{3,4} ")
FEW = 3  # of so many who print one of them may be elsewhere
NAMED = 120  # characters of a line
MANY = 4096  # ranks


@dataclass
class Standing:
    """Who is where.

    Attributes:
        ranks: that stand elsewhere, or did not come to NCCL's start.
        said: what shows it, a sentence each.
        lines: the last lines of those that stand elsewhere.
        logs: names of the logs that end earlier, where they bear no rank.
        links: on how many machines NCCL's start began on every rank and did not end; else 0.
    """

    ranks: tuple[int, ...] = ()
    said: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    logs: tuple[str, ...] = ()
    links: int = 0


@dataclass
class _Lane:
    """One who prints: a rank, or a log without one."""

    rank: int | None
    log: str
    lines: list[Line]
    shapes: set[int]

    @property
    def last(self) -> Line:
        return self.lines[-1]


def of(digests: Sequence[Digest]) -> Standing:
    """What the logs show of who is where; empty where they show nothing."""
    told = Standing()
    for lanes in _streams(digests):
        behind = _elsewhere(lanes) or _slower(lanes)
        if behind is not None:
            some, words = behind
            told.said.append(words)
            told.lines += [lane.last for lane in some]
            told.logs += tuple(lane.log for lane in some if lane.rank is None)
            told.ranks += tuple(lane.rank for lane in some if lane.rank is not None)
    _of_nccl(told, digests)
    told.ranks = tuple(sorted(set(told.ranks)))
    return told


def shown(lines: Sequence[Line], digests: Sequence[Digest]) -> list[Line]:
    """``lines`` without a stream in which all ranks ended with the same words, if one is left."""
    alike = {
        lane.last.raw: number
        for number, lanes in enumerate(_streams(digests))
        if len(lanes) > 1 and len({_plain(lane.last.text) for lane in lanes}) == 1
        for lane in lanes
    }
    left = [line for line in lines if line.raw not in alike]
    return left or list(lines)


def _streams(digests: Sequence[Digest]) -> Iterator[list[_Lane]]:
    """Lanes that can be compared: the same file of each rank, or all that have no such files."""
    names = Counter(_base(d) for d in digests)
    groups: dict[str, list[_Lane]] = {}
    for digest in digests:
        base = _base(digest)
        kept = {rank: lines for rank, lines in digest.recent.items() if lines}
        ranked = {rank: lines for rank, lines in kept.items() if rank is not None}
        for rank, lines in (ranked or kept).items():
            lane = _Lane(rank, digest.source.name, list(lines), digest.shapes.get(rank, set()))
            # Of one run: the same name in each rank's folder, or names that differ by numbers.
            groups.setdefault(base if names[base] > 1 else _NUMBER.sub("#", base), []).append(lane)
    yield from (lanes for lanes in groups.values() if len(lanes) > 1)


def _base(digest: Digest) -> str:
    return digest.source.name.replace("\\", "/").rpartition("/")[2]


def _plain(text: str) -> str:
    """A line without what differs from rank to rank, numbers masked."""
    return _NUMBER.sub("#", _OWN.sub("", _PLACE.sub("", text.strip())))


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(_OWN.sub("", _PLACE.sub("", text.strip())))


def _elsewhere(lanes: list[_Lane]) -> tuple[list[_Lane], str] | None:
    """Those that did not print what most ended with, nor came past it."""
    common, count = Counter(_plain(lane.last.text) for lane in lanes).most_common(1)[0]
    if count < 2 or count == len(lanes) or count * 2 <= len(lanes):
        return None
    most = [lane for lane in lanes if _plain(lane.last.text) == common]
    fixed = [_numbers(lane.last.text) for lane in most]
    same = [n for n, column in enumerate(zip(*fixed, strict=False)) if len(set(column)) == 1]
    wanted = [fixed[0][n] for n in same]
    odd = [lane for lane in lanes if lane not in most]
    late = [lane for lane in odd if _before(lane, most[0].last, common, same, wanted)]
    silent = not any(_step(lane) for lane in most) and any(_step(lane) for lane in late)
    if silent or _WARNED.search(most[0].last.raw):
        return None  # they say nothing of what they do
    if not late or len(late) > max(len(lanes) // FEW, 1):
        return None
    what = f"{_who(most)} end{'' if len(most) > 1 else 's'} with “{_said(most[0].last)}”"
    return late, f"{_who(late)} did not come so far as the others: {_ends(late)}; {what}"


def _before(lane: _Lane, far: Line, common: str, same: list[int], wanted: list[str]) -> bool:
    """Whether it did not come to ``far``, as far as its lines tell."""
    if shape(far.text) not in lane.shapes:
        return len(lane.shapes) < SHAPES
    alike = [line for line in lane.lines if _plain(line.text) == common]
    return bool(alike) and not any(_reached(line, common, same, wanted) for line in alike)


def _reached(line: Line, common: str, same: list[int], wanted: list[str]) -> bool:
    """Whether it is the same line, of the same step or a later one."""
    if _plain(line.text) != common:
        return False
    numbers = _numbers(line.text)
    pairs = [(numbers[n], want) for n, want in zip(same, wanted, strict=True) if n < len(numbers)]
    return all(a == b or (a.isdecimal() and b.isdecimal() and int(a) > int(b)) for a, b in pairs)


def _slower(lanes: list[_Lane]) -> tuple[list[_Lane], str] | None:
    """Those whose last step is behind the others'."""
    steps = {id(lane): _step(lane) for lane in lanes}
    told = [lane for lane in lanes if steps[id(lane)] is not None]
    if len(told) < 2 or len(told) < len(lanes):
        return None
    far = max(steps[id(lane)] or 0 for lane in told)
    late = [lane for lane in told if steps[id(lane)] != far]
    if not late or len(late) * 2 > len(told):
        return None
    if len(late) * 2 == len(told) and any(lane.rank is None for lane in lanes):
        return None  # two logs may be two jobs
    behind = ", ".join(str(n) for n in sorted({steps[id(lane)] or 0 for lane in late}))
    return late, f"{_who(late)} told step {behind} last, the others step {far}: {_ends(late)}"


def _step(lane: _Lane) -> int | None:
    found = (progress.step_of(line.text) for line in reversed(lane.lines))
    return next((step[0] for step in found if step is not None), None)


def _who(lanes: Sequence[_Lane]) -> str:
    ranks = [lane.rank for lane in lanes if lane.rank is not None]
    if len(ranks) == len(lanes):
        return watchdog.ranks(ranks)
    if len(lanes) > 2:
        return f"{len(lanes)} logs"
    return " and ".join(lane.log for lane in lanes)


def _ends(lanes: Sequence[_Lane]) -> str:
    its = "its" if len(lanes) == 1 else "their"
    return f"{its} last line is “{_said(lanes[0].last)}”"


def _said(line: Line) -> str:
    text = _PLACE.sub("", line.text.strip())
    return text if len(text) <= NAMED else f"{text[:NAMED]} …"


def _beyond(digests: Sequence[Digest], group: str) -> bool:
    """Whether a rank that ended the start of this group went on behind it."""
    for digest in digests:
        at = max(digest.text.rfind(f"commId {group} - Init COMPLETE{end}") for end in ("", "\n"))
        rest = digest.text[at:].splitlines()[1:] if at >= 0 else []
        if any(line.strip() and "NCCL " not in line for line in rest):
            return True
    return False


def _of_nccl(told: Standing, digests: Sequence[Digest]) -> None:
    """Who began NCCL's start and who did not, of the group that was started last."""
    began: dict[str, set[int]] = {}
    ended: dict[str, set[int]] = {}
    size: dict[str, int] = {}
    for digest in digests:
        if "- Init START" not in digest.text:
            continue
        for match in _INIT.finditer(digest.text):
            kept = began if match[4] == "START" else ended
            kept.setdefault(match[3], set()).add(int(match[1]))
            size[match[3]] = int(match[2])
    for group, ranks in began.items():
        done, world = ended.get(group, set()), size[group]
        missing = set(range(world)) - ranks if world <= MANY else set()
        if missing and len(missing) <= len(ranks) and not done:
            told.ranks += tuple(missing)
            told.said.append(
                f"{watchdog.ranks(missing)} of {world} did not come to NCCL's “Init START”; "
                f"{watchdog.ranks(ranks)} did, and wait there"
            )
        elif not missing and world > 1 and len(done) < world and not _beyond(digests, group):
            told.links = len({host for d in digests for host in _HOST.findall(d.text)}) or 1
            told.said.append(
                f"all {world} ranks began NCCL's start, {len(done)} of them ended it: they do not "
                "reach each other on the way that NCCL chose"
            )
