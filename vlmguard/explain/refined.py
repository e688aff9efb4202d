"""What the run's own facts make of a failure that its message alone names otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vlmguard.explain import placed, rising, settled
from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known, flat
from vlmguard.explain.logfacts import CARDS, Facts

_NO_NUMBER, _NOT_GATHERED, _CACHE = "VG515", "VG523", "VG524"
_DRIVER, _HUB, _REWARDS = "VG537", "VG540", "VG581"
_HARDWARE, _NETWORK, _NOT_STARTED = "VG534", "VG536", "VG590"
_STATE = re.compile(r"\b(?:RunContainer|CreateContainer|StartError)\w{0,9}\s")
_EVENT = "Error: failed to "
_VERBS = re.compile(r"NCCL WARN Call to ibv_reg_\w{1,40} failed[^\n]{0,200}")
_REWARD = re.compile(r"reward|judge|grader", re.I)
_NO_CARD = ("VG529", "VG559")
_CARD = re.compile(r"\b(?:CUDA|GPU|NCCL|cuda|gpu|bf16)\b")
_WARNED = re.compile(r"UserWarning: CUDA initialization: [^\n]{1,600}")
_EMPTY = re.compile(r"for dimension \d with size 0$")
_SWITCHED = "use_cache=True` is incompatible with gradient checkpointing"
# Attention's own sizes; where the forward is done again its keys are there twice.
_KEYS = re.compile(
    r"(?:expanded size of the tensor|size of tensor a) \((\d{2,9})\) must match the "
    r"(?:existing size|size of tensor b) \((\d{2,9})\) at non-singleton dimension 3"
)
_SIZES = re.compile(
    r"size of tensor a \((\d{2,9})\) must match the size of tensor b \((\d{2,9})\)"
    r" at non-singleton dimension [23]"
)


def by_facts(answer: Answer, catalogue: Sequence[Known], digests: Sequence[Digest]) -> Answer:
    """Under ZeRO-3 an index into a table of 0 rows is a weight that was not gathered; and more."""
    said = answer.facts.message
    empty = "IndexError" in said and _EMPTY.search(said.rstrip()) is not None
    known = answer.known
    if known is not None and known.code == _NOT_STARTED:
        _by_its_reason(answer, digests)
    if known is not None and known.code == _NO_NUMBER:
        answer.facts = _with_rise(answer, digests)
    if known is not None and known.code == _NETWORK:
        answer.facts = _with_nccl(answer.facts, digests)
    if known is None and empty and answer.facts.zero == 3:
        _tell(answer, _NOT_GATHERED, catalogue)
    fault = settled.of(answer.facts)
    if fault is not None and fault.code:
        _tell(answer, fault.code, catalogue)
    if answer.known is None and (_switched_off(said, digests) or _filled_twice(answer.facts)):
        _tell(answer, _CACHE, catalogue)
    if known is not None and known.code == _HUB and _REWARD.search(_functions(answer)):
        _tell(answer, _REWARDS, catalogue)  # its own server's
    if answer.known is not None:
        answer.facts = _with_place(answer, digests)
    if answer.known is not None and answer.known.code == _HARDWARE:
        answer.facts = _with_card(answer)
    if _no_driver(answer, digests):
        _tell(answer, _DRIVER, catalogue)
        answer.facts = _with_warning(answer.facts, digests)
    return answer


def _with_rise(answer: Answer, digests: Sequence[Digest]) -> Facts:
    """Whether the loss rose first, where a line told the failure and not an exception."""
    facts = answer.facts
    if answer.pick is None or answer.pick.event is not None or not rising.before_nan(digests):
        return facts
    return replace(facts, said={**facts.said, "lossrose": "true"})


def _tell(answer: Answer, code: str, catalogue: Sequence[Known]) -> None:
    answer.known = next(k for k in catalogue if k.code == code)
    answer.verdict = "explained"


def _by_its_reason(answer: Answer, digests: Sequence[Digest]) -> None:
    """A pod's state says that it failed, a line of its events why."""
    if answer.pick is None or not _STATE.search(answer.pick.line.raw):
        return
    told = (line for d in digests for line, _ in d.telling if _EVENT in line.raw)
    line = next(told, None)
    if line is not None:
        answer.evidence = [answer.pick.line, line]
        answer.facts = replace(answer.facts, message=flat(line.raw))


def _with_nccl(facts: Facts, digests: Sequence[Digest]) -> Facts:
    """What InfiniBand's own call said, where the exception says that the system failed."""
    found = (match for d in digests if (match := _VERBS.search(d.text)))
    called = next(found, None)
    return replace(facts, message=f"{facts.message} {called[0]}") if called else facts


def _with_warning(facts: Facts, digests: Sequence[Digest]) -> Facts:
    """The driver's own number stands in the warning, not in what the program said of it."""
    found = (match for d in digests if (match := _WARNED.search(d.text)))
    warned = next(found, None)
    return replace(facts, message=f"{facts.message} {warned[0]}") if warned else facts


def _with_place(answer: Answer, digests: Sequence[Digest]) -> Facts:
    """The machine of the rank that failed, and the time that the run had to go."""
    rank = answer.ranks[0] if len(answer.ranks) == 1 and answer.sure else None
    line = answer.pick.line if answer.pick is not None else None
    found = {**placed.times(digests), **placed.machine(rank, line, digests)}
    if rank is not None:
        found["startrank"] = str(rank)
    if answer.table is not None and placed.together(answer.table.gone, digests):
        found["here"] = "true"
    return replace(answer.facts, said={**answer.facts.said, **found})


def _with_card(answer: Answer) -> Facts:
    """The number of the card that failed: its rank's, among those of its machine."""
    facts, ranks = answer.facts, answer.ranks
    if "localrank" in facts.said:
        card = {"card": facts.said["localrank"], "failed": str(ranks[0])}
        return replace(facts, said={**facts.said, **card})
    each = facts.number("nproc_per_node")
    if len(ranks) != 1 or not answer.sure or "node" in facts.said:  # srun's tasks lie otherwise
        return facts
    if each is None and (ranks[0] >= CARDS or (facts.world or 0) > CARDS):
        return facts
    if each is None and facts.said.get("nnodes", "1") != "1":
        return facts
    card = {"card": str(ranks[0] % (each or CARDS)), "failed": str(ranks[0])}
    return replace(facts, said={**facts.said, **card})


def _functions(answer: Answer) -> str:
    event = answer.pick.event if answer.pick is not None else None
    return " ".join(f"{name} {path}" for path, _, name in event.frames) if event else ""


def _no_driver(answer: Answer, digests: Sequence[Digest]) -> bool:
    """A program that finds no card, behind torch's warning that the driver does not fit it."""
    code = answer.known.code if answer.known is not None else ""
    asked = code in _NO_CARD or (not code and _CARD.search(answer.facts.message) is not None)
    return asked and any(_WARNED.search(d.text) for d in digests)


def _filled_twice(facts: Facts) -> bool:
    """Whether there are twice as many keys as the mask is for, where checkpointing recomputes."""
    sizes = _KEYS.search(facts.message)
    pair = sorted(map(int, sizes.groups())) if sizes is not None else (1, 1)
    recomputed = "checkpoint.py" in facts.trace and (
        " in backward" in facts.trace or "recompute" in facts.trace
    )
    return pair[1] == 2 * pair[0] and recomputed


def _switched_off(said: str, digests: Sequence[Digest]) -> bool:
    """Sizes one apart beside transformers' notice that it switched the cache off: generation's."""
    sizes = _SIZES.search(said)
    apart = sizes is not None and abs(int(sizes[1]) - int(sizes[2])) == 1
    return apart and any(_SWITCHED in d.text for d in digests)
