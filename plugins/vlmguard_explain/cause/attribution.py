"""On which rank it started: whom the others waited for, and whom a failure's own words name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from vlmguard_explain.cause.candidates import Answer, Candidate
from vlmguard_explain.cause.no_exception import nodes
from vlmguard_explain.lazy import patterns
from vlmguard_explain.run import endings, watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts

_P = patterns("cause.attribution")

_WAITS = ("VG517", "VG505", "VG551")
_DIED = ("VG532", "VG558")
MANY = 4096  # ranks

Named = tuple[int | None, str]


def attribute(answer: Answer, digests: Sequence[Digest]) -> None:
    """Set the answer's rank to the first that is named."""
    if _of_its_node(digests):
        answer.ranks = ()
    rank, how = next((one for one in _named(answer, digests) if one[0] is not None), (None, ""))
    if rank is not None:
        answer.ranks, answer.sure, answer.how = (rank,), True, how


def _named(answer: Answer, digests: Sequence[Digest]) -> Iterator[Named]:
    """Who is named, and by what; at first what tells more than who spoke first."""
    code, message = answer.failure, answer.facts.message
    if code in _WAITS:
        asked = _only(_P.asked, _messages(digests))
        yield asked, "it did not answer when the others asked for its NCCL id"
        recorded = _only(_P.recorded, [d.text for d in digests])
        yield recorded, "the flight recorder says that it did not come"
        yield _odd(digests), "the others' collectives are alike, its own differs"
    if code == "VG561":
        yield _differs(digests), "the others' parameters are alike, its own differ"
    if answer.ranks and answer.sure:
        return
    if code in _DIED and not nodes(digests):
        yield _silent(answer, digests), "the others only lost their connection to it"
    if answer.known is not None and _single(answer):
        yield 0, "the run has one rank"
    if answer.ranks or answer.pick is None:
        return
    if match := _P.says.match(message) or _P.unused.search(message):
        yield int(match[1]), "its message names it"
    lists = ("ranked",) if nodes(digests) else ("ranked", "local")  # a local rank is not a rank
    process = _of_process(answer.pick, digests, lists)
    yield process, "the launcher says which rank this process is"
    yield _of_node(answer.pick, digests), "its node's launcher tells the ranks of the node"
    if len(digests) >= (answer.facts.world or len(digests) + 1):  # one file per rank
        said = digests[answer.pick.line.source].text
        yield _only(_P.own, [said]), "its log says which rank it is"
    card = _P.gpu.search(message)
    if card and not nodes(digests) and int(card[1]) < (answer.facts.world or 0):
        yield int(card[1]), "it has the card that its message names"
    if answer.table is not None:
        yield _one(set(answer.table.gone)), "the others wait for it"
    joins = "in init_process_group" in answer.facts.trace  # a rank did it, not an agent
    if code == "VG542" and "server socket" in message and joins:
        yield 0, "rank 0 serves the store on which the ranks meet"


def _of_process(pick: Candidate, digests: Sequence[Digest], lists: Sequence[str]) -> int | None:
    """The rank of the process that the failure's own line names, as it or its launcher told it."""
    raw = ((pick.event and pick.event.last) or pick.line).raw
    forms = [one for name in lists for one in _P.list_of(name)]
    for named in (match[1] for one in _P.list_of("process") if (match := one.search(raw, 0, 1000))):
        said = (m for one in forms for d in digests for m in one.finditer(d.text))
        if (rank := _one({int(m["rank"]) for m in said if m["process"] == named})) is not None:
            return rank
    return None


def _of_node(pick: Candidate, digests: Sequence[Digest]) -> int | None:
    """The rank of the process that its launcher saw end so, by what that says of its node's."""
    for d in digests:
        here, node = _P.here.search(d.text), _P.node.search(d.text)
        rows = [here[1]] if here else _P.mapped.findall(d.text)[int(node[1]) :] if node else []
        local = next((e.local for e in d.exits if endings.BY_EXIT.get(e.code) == pick.code), -1)
        local = _of_process(pick, [d], ("local",)) if local is None else local
        ranks = rows[0].split(",") if rows else []
        if local is not None and 0 <= local < len(ranks):
            return int(ranks[local])
    return None


def _of_its_node(digests: Sequence[Digest]) -> bool:
    """Whether the rank is that of torchrun's folder, which counts on each node from 0."""
    folders = [d.source for d in digests if "attempt_" in d.source.name]
    files = [(s.rank, re.split(r"[/\\]", s.name)[-1]) for s in folders]
    return len(set(files)) < len(files)


def _one(ranks: Set[int]) -> int | None:
    return next(iter(ranks)) if len(ranks) == 1 else None


def _only(pattern: re.Pattern[str], said: Sequence[str]) -> int | None:
    """The one rank that the pattern finds."""
    return _one({int(match[1]) for text in said for match in pattern.finditer(text)})


def _messages(digests: Sequence[Digest]) -> list[str]:
    return [e.message.replace("\n", " ") for d in digests for e in d.events]


def _differs(digests: Sequence[Digest]) -> int | None:
    """The rank that others name. Each names the first whose parameters are not its own: of 0 and
    1, which name each other, nobody knows which is meant."""
    said = (m for text in _messages(digests) for m in _P.unlike.finditer(text))
    pairs = {(int(m[1]), int(m[2])) for m in said}
    named = Counter(other for _, other in pairs).most_common(2)
    if len(named) == 1 and (named[0][1] > 1 or named[0][0] > 1):
        return named[0][0]
    return named[0][0] if len(named) > 1 and named[0][1] > named[1][1] else None


def _odd(digests: Sequence[Digest]) -> int | None:
    """The rank that runs another collective than the others, of three or more."""
    said = (m for text in _messages(digests) for m in _P.fingerprint.finditer(text))
    runs = {match[1]: match[2] for match in said}
    counts = Counter(runs.values())
    return _one({int(rank) for rank, run in runs.items() if counts[run] == 1 < len(runs) - 1})


def _silent(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """Of the ranks of one node the only one that did not say that it lost another."""
    heard = {e.rank for d in digests for e in d.events if _P.lost.search(e.message)} - {None}
    ended = {m[1] for d in digests for m in _P.subprocess.finditer(d.text)}
    return _one(set(range(answer.facts.world or len(ended))) - heard) if heard else None


def _single(answer: Answer) -> bool:
    """Whether the run is one process, as a notebook's cell is that trains by itself."""
    event = answer.pick.event if answer.pick is not None else None
    paths = " ".join(path for path, _, _ in event.frames) if event is not None else ""
    cell = event is not None and bool(event.titled) and "launchers.py" not in paths
    return answer.facts.world == 1 or (answer.facts.world is None and cell)


def waited_for(answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest]) -> None:
    """Say who started a wait or a lost connection: not those who say it."""
    if barrier := _P.barrier.search(answer.facts.message):
        answer.ranks = tuple(int(rank) for rank in re.findall(r"\d+", barrier[1]))
        answer.sure, answer.how = True, "a barrier names who never came to it"
    elif answer.table is None or (answer.known is not None and answer.known.order == "peer"):
        _by_silence(answer, candidates, digests)
    else:
        _by_table(answer, answer.table)


def _by_table(answer: Answer, table: watchdog.Table) -> None:
    answer.evidence = [wait.line for wait in table.waits[:8]]
    heard = [w.rank for w in table.waits if w.rank is not None]
    if table.late or table.odd:
        answer.ranks, answer.sure = table.late or table.odd, True
        answer.how = "it never came to the collective in which the others wait"
        if not table.late:
            answer.how = "it waits in another collective than the others"
        elif not table.gone:
            answer.how = "it is alive, and waits in a collective that the others have completed"
        return
    answer.ranks, answer.sure, answer.how = (), False, ""
    every = len(heard) == (answer.facts.world or max(heard, default=0) + 1)
    if len(table.waits) > 1 and (every or not table.same or len(heard) < len(table.waits)):
        answer.ranks = tuple(heard)
        answer.how = "all of them wait in the same collective" if table.same else ""
    elif heard:
        answer.how = (
            f"only waits of {watchdog.ranks(heard)} are in these logs; "
            "those of the other ranks tell who never came"
        )


def _by_silence(answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest]) -> None:
    """Who says that it waited, or lost its connection, did not start it: the others did."""
    said = answer.pick.known if answer.pick is not None else answer.known
    heard = {c.rank for c in candidates if c.known is said and c.rank is not None}
    ends = [e for d in digests for e in d.exits]
    logs = [*(e.rank for e in ends), *(d.source.rank for d in digests), *heard]
    world = answer.facts.world or max((r for r in logs if r is not None), default=-1) + 1
    if not heard or world > MANY:
        return
    others, first = set(range(world)) - heard, endings.first(ends)
    few = len(others) == 1 or (answer.facts.world and len(others) <= len(heard))
    if first is not None and first.rank is not None and first.rank not in heard:
        answer.ranks, answer.sure = (first.rank,), True
        answer.how = "torchrun's first observed failure, and it lost no connection itself"
    elif others and few:
        answer.ranks, answer.sure = tuple(sorted(others)), len(others) == 1
        answer.how = "it is the one that the others waited for"
    elif not others and world > 1:
        answer.ranks, answer.sure = tuple(sorted(heard)), False
        answer.how = "all of them say the same"
    elif set(answer.ranks) <= heard and answer.ranks:
        answer.ranks, answer.sure = (), False
        answer.how = f"only {watchdog.ranks(heard)} waited: the others' logs tell who began"


def each_its_own(digests: Sequence[Digest]) -> bool:
    """Whether the logs that were given are files of single ranks."""
    return len({d.source.rank for d in digests} - {None}) > 1


def all_lived(facts: Facts, digests: Sequence[Digest]) -> bool:
    """Whether torchrun sent SIGTERM to each that had not failed itself, and none was killed.

    It says at once that one was killed: a rank that it ended was alive.
    """
    ended = {match[1] for d in digests for match in _P.ended.finditer(d.text)}
    failed = [one for d in digests for one in d.exits]
    if not ended or any(one.code in endings.KILLED for one in failed):
        return False
    if facts.world is None:
        return facts.fields.get("nnodes", "1") in ("", "1")
    return facts.world <= len(ended) + max(len({one.rank for one in failed}), 1)
