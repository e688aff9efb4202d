"""A log that just ends, and a failure that is not in the catalogue: what can be said, and what the
steps to type next need."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.advice import packages
from vlmguard_explain.advice.values import Values, quoted
from vlmguard_explain.cause.candidates import Answer, launchers
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import CARDS, Facts
from vlmguard_explain.source import clean
from vlmguard_explain.tracebacks.event import flat

_P = patterns("show.unexplained")
_T = words("show.unexplained")


def cause(answer: Answer, digests: Sequence[Digest]) -> str:
    """How far it came."""
    return clean.shown(f"{_state(answer, digests)[1]}. {_T.either}")


def _state(answer: Answer, digests: Sequence[Digest]) -> tuple[str, str]:
    """What the run was doing: in a word for conditions, and in a sentence."""
    progress, last = [d.progress for d in digests], answer.facts.steps
    if (nodes := _nodes(answer, digests)) > 1:
        return "nodes", _T.state["nodes"].format(nodes)
    if last is None:
        bar = next((p.loading for p in progress if p.loading is not None), None)
        final = [d.finals.get(bar.rank) for d in digests] if bar is not None else []
        if bar is not None and any(f is not None and f.place == bar.place for f in final):
            at_work = _T.state["before"].format(bar.text.strip()[:80])
            if _P.download.search(bar.text):
                return "download", _T.state["download"].format(bar.text.strip()[:80])
            return "mapping" if _P.mapped.search(at_work) else "before", at_work
        kind = "preparing" if any(p.preparing is not None for p in progress) else "start"
        return kind, _T.state[kind]
    # An evaluation has another bar, of another length.
    own = [at for p in progress for at, _, of in p.steps if of == last[1]]
    at = max(own or [p.last.at for p in progress if p.last is not None], default=-1)
    for p in progress:
        if max(p.evaluating, p.saving) > at >= 0:
            kind = "evaluation" if p.evaluating > p.saving else "checkpoint"
            return kind, _T.state[kind].format(last[0])
        if p.loading is not None and p.loading.at > at >= 0:
            return "work", f"{_T.state['step'].format(last[0])}: {p.loading.text.strip()[:80]}"
    kind = "step" if last[0] else "first"
    return kind, _T.state[kind].format(last[0])


def _nodes(answer: Answer, digests: Sequence[Digest]) -> int:
    """How many nodes were asked for, where no rank of any has printed a line yet."""
    asked = answer.facts.fields.get("nnodes", "")
    printed = any(rank is not None for d in digests for rank in d.finals)
    printed = printed or any(d.progress.loading is not None for d in digests)
    quiet = answer.facts.steps is None and not printed
    return int(asked) if quiet and asked.isdecimal() and len(asked) < 6 else 1


def values(answer: Answer, digests: Sequence[Digest]) -> dict[str, str]:
    """Name → value for `[[unfinished_step]]` of ``tables/show.toml``, quoted for a shell."""
    facts, nodes, state = answer.facts, _nodes(answer, digests), _state(answer, digests)[0]
    where = "on each node" if nodes > 1 or (facts.world or 0) > CARDS else "on the machine"
    logs = [quoted(_P.packed.sub("", d.source.name)) for d in digests[:4]]
    read = Values(Facts(message=answer.evidence[0].text if answer.evidence else ""))
    # machines whose log ends where NCCL starts: its links do not answer
    links = {match[1] for line in answer.evidence if (match := _P.starts.match(line.raw))}
    jobs = (_P.job.search(d.source.name) or _P.said.search(d.text) for d in digests)
    return {
        "state": state,
        "log": " ".join(filter(None, logs)) or "LOG",
        "job": next((match[1] for match in jobs if match), ""),  # of Slurm
        "look": "true" if len(digests) == 1 and state != "checkpoint" else "",
        "links": {0: "", 1: "one"}.get(len(links), "several"),
        "othernodes": str(nodes - 1) if nodes > 1 else "",
        "where": where,
        **{name: quoted(facts.fields.get(said, "")) or usual
           for name, (said, usual) in _T.arguments.items()},
        **{name: read.get(name, "") for name in _T.opened},
    }  # fmt: skip


def unknown_cause(answer: Answer) -> str:
    """What the log shows."""
    if answer.code in (-6, 134):
        return str(_T.aborted)
    event = answer.pick.event if answer.pick else None
    return str(_T.launcher if event is None or launchers(event) else _T.first)


def unknown_values(answer: Answer) -> dict[str, str]:
    """Name → value for `[[unknown_step]]` of ``tables/show.toml``, quoted for a shell."""
    event = answer.pick.event if answer.pick else None
    found = {"raised": " ".join(packages.raised_in(event.frames))} if event is not None else {}
    found["package"] = found.get("raised", "").partition(" ")[0]
    if event is None or launchers(event):
        said = " ".join(line.raw for line in answer.evidence)
        told = (name for mark, name in _T.launchers.items() if mark in said)
        return {**found, "lastlines": next(told, "other"), "aborted": str(answer.code in (-6, 134))}
    said = clean.shown(flat(f"{event.type}: {event.message}")).strip()
    found["advised"] = Values(Facts(message=said)).get("advised", "")
    place = event.where
    if place is not None:
        found.update(file=quoted(place[0]), lines=f"{max(place[1] - 8, 1)},{place[1] + 3}p")
    return {**found, "untraced": "" if event.frames else "true"}
