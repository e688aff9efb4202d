"""Which rank a failure's own words name, where no launcher does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from vlmguard.explain import pids
from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest, texts
from vlmguard.explain.ended import nodes
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line
from vlmguard.explain.pids import only

# torch: "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d".
_ASKED = re.compile(
    r"\[(\d{1,6})\] is setting up .{1,60}retr(?:ie|ei)ving \w{1,30} from \[(\d{1,6})\]"
)
_RECORDED = re.compile(r"\bmissing ranks: \{(\d{1,6})\}")
# An exception's message that begins with the rank that raised it.
_SAYS = re.compile(r"^(?:\w{1,60}\.){0,6}\w{1,60}: \[?[Rr]ank[ =]?(\d{1,6})\]:? ")
# DDP, of its own parameters.
_UNUSED = re.compile(r"did not receive grad for rank (\d{1,6}):")
_GPU = re.compile(r"\bGPU (\d{1,2})\b")
# torch under TORCH_DISTRIBUTED_DEBUG=DETAIL: what each rank is in.
_IN = re.compile(
    r"Rank (\d{1,6}) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
    r"(?:SequenceNumber=\d{1,12}, )?(OpType=\w{1,40}(?:, TensorShape=\[[^\]]{0,200}\])?)"
)
_UNLIKE = re.compile(
    r"across all ranks, but Rank (\d{1,6}) has \d{1,9} params, while rank (\d{1,6}) has incons"
)
_XID = re.compile(r"\bXid \(PCI:([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})")
_CARD = re.compile(r"\brank (\d{1,6}) nranks .{0,60}\bbusId ([0-9a-f]{1,16})\b")
_OWN = re.compile(r"(?i)\brank[ _:=]?(\d{1,5})\b")
_DIED = ("VG532", "VG558")
_LOST = re.compile(r"Connection (?:closed|reset) by peer|remote process exited|ncclRemoteError")
_SUBPROCESS = re.compile(r"sigkill_handler\] Killing subprocess (\d{1,9})")
# Of records, and what transformers' and LLaMA-Factory's say of their own process.
_RECORD = re.compile(
    r"(?:\b(?:[Pp]rocess |global_|world_)?rank(?:=|: ?)|\bRANK=|\[[Rr]ank ?"
    r"|distributed init \(rank )"
    r"(\d{1,5})\b"
)
ON_A_NODE = 8  # cards

Told = tuple[int, str]


def told(answer: Answer, digests: Sequence[Digest]) -> Told | None:
    """The rank, and how it is known; None where these words name none."""
    code = answer.known.code if answer.known is not None else ""
    if code in ("VG517", "VG505", "VG551") and (asked := _waited_for(digests)) is not None:
        return asked, "it did not answer when the others asked for its NCCL id"
    if code in ("VG505", "VG551") and (missing := _missing(digests)) is not None:
        return missing, "the flight recorder says that it did not come"
    if code == "VG551" and (busy := _busy(answer, digests)) is not None:
        return busy, "it said that it began, when the others waited"
    if code == "VG505" and (other := _apart(digests)) is not None:
        return other, "it is in another collective than the others"
    if code == "VG561" and (other := _differs(digests)) is not None:
        return other, "the others' parameters are alike, its own differ"
    if _on_its_node(answer, digests):
        answer.ranks = ()
    if answer.ranks and answer.sure:
        return None
    if code == "VG512" and (card := _card(answer, digests)) is not None:
        return card, "the GPU that is full is its own"
    if code == "VG534" and (card := _failed(digests)) is not None:
        return card, "NCCL's lines say that the card is its own"
    if code in _DIED and not nodes(digests) and (gone := _silent(answer, digests)) is not None:
        return gone, "the others only lost their connection to it"
    if answer.known is not None and _alone(answer):
        return 0, "the run has one rank"
    if answer.ranks or answer.pick is None:
        return None
    if (says := _SAYS.match(answer.facts.message)) and answer.known is not None:
        return int(says[1]), "its message begins with it"
    if (own := _UNUSED.search(answer.facts.message)) is not None:
        return int(own[1]), "its message names it"
    if code == "VG542" and any(_serves(e) for d in digests for e in d.events):
        return 0, "rank 0 serves the store on which the ranks meet"
    if (one := pids.rank(answer, digests)) is not None:
        return one, "the launcher says which rank this process is"
    if (one := _of_file(answer, digests)) is not None:
        return one, "each log names one rank, this one its own"
    return None


def _of_file(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """The rank of the failure's log, where every log of several names one rank, each its own.

    One that names none is that of the rank that no other has, if there is one log a rank.
    """
    number = answer.pick.line.source if answer.pick is not None else -1
    told = {d.number: _names(d.text) for d in digests}
    others = [named for d, named in told.items() if d != number]
    taken = set().union(*others)
    if len(told) < 2 or any(len(named) != 1 for named in others) or len(taken) < len(others):
        return None
    own = told.get(number, taken)
    if len(own) == 1 and not own & taken:
        return min(own)
    left = set(range(len(told))) - taken
    each = answer.facts.world == len(told) or all("attempt_" in d.source.name for d in digests)
    return only(left) if not own and each and len(told) > 2 else None


def _names(text: str) -> set[int]:
    """The ranks that a log's records name."""
    return {int(match[1]) for match in _RECORD.finditer(text)}


def _on_its_node(answer: Answer, digests: Sequence[Digest]) -> bool:
    """Whether the rank is only what torchrun's folder says, which counts on each node from 0."""
    of = {d.number: d.source for d in digests if "attempt_" in d.source.name}
    if answer.pick is None or answer.pick.line.source not in of:
        return False
    own = of[answer.pick.line.source].rank
    others = [(d.source.rank, _names(d.text)) for d in digests if d.number in of]
    apart = [min(named) for here, named in others if len(named) == 1 and here not in named]
    said = bool(_names(answer.pick.line.raw))
    each = len(set(apart)) == len(apart) > 1  # two processes are never of one rank
    return answer.ranks == (own,) and not said and each


def _alone(answer: Answer) -> bool:
    """Whether the run is one process, as a notebook's cell is that trains by itself."""
    event = answer.pick.event if answer.pick is not None else None
    paths = [path for path, _, _ in event.frames] if event is not None else []
    cell = event is not None and bool(event.titled)
    spawned = any("notebook_launcher" in path or "/launchers.py" in path for path in paths)
    return answer.facts.world == 1 or (answer.facts.world is None and cell and not spawned)


def _serves(event: Event) -> bool:
    """Whether a rank, and no launcher's agent, was to listen where the others call."""
    paths = " ".join(path for path, _, _ in event.frames)
    joins = any(name == "init_process_group" for _, _, name in event.frames)
    return "server socket" in event.message and joins and "distributed/elastic" not in paths


def _messages(digests: Sequence[Digest]) -> Iterator[str]:
    return (e.message.replace("\n", " ") for d in digests for e in d.events)


def _waited_for(digests: Sequence[Digest]) -> int | None:
    asked = [match for text in _messages(digests) if (match := _ASKED.search(text))]
    waited = {int(match[2]) for match in asked}
    heard = {int(match[1]) for match in asked}
    return None if waited & heard else only(waited)


def _missing(digests: Sequence[Digest]) -> int | None:
    """The rank that torchfrtrace found in none of the others' collective."""
    return only({int(match[1]) for d in digests for match in _RECORDED.finditer(d.text)})


def _busy(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """The rank whose own line says that it saves or evaluates, if it is none of those that wait."""
    began = [d.progress.began for d in digests if d.progress.began is not None]
    waits = {w.rank for w in answer.table.waits} if answer.table is not None else set()
    one = only({rank for line in began if (rank := _rank(line)) is not None})
    return one if one not in waits else None


def _rank(line: Line) -> int | None:
    match = _OWN.search(line.raw)
    return int(match[1]) if match else line.rank


def _apart(digests: Sequence[Digest]) -> int | None:
    """The one rank of three or more that is in another collective than all others."""
    each = {int(m[1]): m[2] for text in _messages(digests) for m in _IN.finditer(text)}
    counted = Counter(each.values()).most_common()
    if len(each) < 3 or len(counted) != 2 or counted[1][1] != 1:
        return None
    return next(rank for rank, what in each.items() if what == counted[1][0])


def _differs(digests: Sequence[Digest]) -> int | None:
    """The rank that others name. Each names the first whose parameters are not its own: of 0 and
    1, which name each other, nobody knows which is meant."""
    told = {(int(m[1]), int(m[2])) for text in _messages(digests) for m in _UNLIKE.finditer(text)}
    named = Counter(other for _, other in told).most_common()
    if named and named[0][1] > 1 and (len(named) == 1 or named[1][1] < named[0][1]):
        return named[0][0]
    one = only({other for _, other in told})
    return one if one is not None and one > 1 else None


def _silent(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """Of the ranks of one node the only one that did not say that it lost another."""
    heard = {e.rank for d in digests for e in d.events if _LOST.search(e.message)} - {None}
    ended = {m[1] for d in digests for m in _SUBPROCESS.finditer(d.text)}
    others = set(range(answer.facts.world or len(ended))) - heard
    return only(others) if heard else None


def _card(answer: Answer, digests: Sequence[Digest]) -> int | None:
    """On one node card and rank have one number, unless each process sees a single card: 0."""
    match, world = _GPU.search(answer.facts.message), answer.facts.world
    if match is None or world is None or world > ON_A_NODE or nodes(digests):
        return None
    return int(match[1]) if 0 < int(match[1]) < world else None


def _failed(digests: Sequence[Digest]) -> int | None:
    """The rank on the card of which the driver tells, by its place on the bus."""
    faulty = {
        int(f"{m[1]}{m[2]}{m[3]}0", 16) for text in texts(digests) for m in _XID.finditer(text)
    }
    cards = {(int(m[1]), int(m[2], 16)) for d in digests for m in _CARD.finditer(d.text)}
    ranks = {rank for rank, bus in cards if bus in faulty}
    return only(ranks) if len(faulty) == 1 else None
