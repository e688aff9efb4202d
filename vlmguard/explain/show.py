"""An answer as text. Everything from the log is cleaned here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlmguard.core.findings import Finding
from vlmguard.explain import (
    absent,
    clean,
    codeline,
    excerpt,
    flags,
    inherited,
    packages,
    parted,
    standing,
    unfinished,
    unknown,
    watchdog,
)
from vlmguard.explain.answer import Answer
from vlmguard.explain.beforehand import TITLES
from vlmguard.explain.candidates import Candidate, launchers
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import settled_steps
from vlmguard.explain.language import chinese
from vlmguard.explain.notes import NOTES

SIDE = 32  # ranks
_BY = ("torchrun's first", "its place", "the ranks' clocks", "its exit code", "the logged")
_OF_OTHERS = ("it did not answer", "it never came", "it is the one that")  # who waited says so
_CUT = "a traceback whose last line is not in this log"
_ZH = {
    "unknown": "未知故障：目录中没有对应的类别",
    "unfinished": "日志中断：没有结束标记，也没有报错；训练可能仍在运行、卡住或被杀死",
    "finished": "训练已正常结束",
}
_EACH = {
    "deepspeed": "deepspeed --enable_each_rank_log=LOGS …",
    "accelerate": "accelerate launch --log_dir LOGS --tee 3 …",
    "": "PET_LOG_DIR=LOGS PET_REDIRECTS=3 in front of the same command (torchrun --log-dir LOGS "
    "--redirects 3; swift and llamafactory-cli start torchrun, and it reads them)",
}
_ALONE = {
    "LLaMA-Factory": "CUDA_VISIBLE_DEVICES=0 in front of the same command: one process, without a "
    "launcher:",
    "ms-swift": "NPROC_PER_NODE=1 CUDA_VISIBLE_DEVICES=0 in front of the same command: one "
    "process:",
    "": "CUDA_VISIBLE_DEVICES=0 in front of the same command: as one process (torchrun "
    "--nproc_per_node 1, accelerate launch --num_processes 1):",
}
_RELEASES = (
    "python -m pip list | grep -i -E 'torch|transformers|peft|accelerate|deepspeed|trl|swift|"
    "llamafactory': the releases, beside the traceback, for whoever is asked"
)


def finding(answer: Answer) -> Finding | None:
    """The answer as the object that rules give, or None for an end that is no known failure."""
    if answer.known is None:
        return None
    known = answer.known
    why = clean.shown(known.told(answer.facts))
    advice = "; or ".join(flags.say(do, answer.facts) for do in known.remedies(answer.facts))
    return Finding(known.code, "error", why, scope="rank", advice=advice, evidence=known.evidence)


def text(answer: Answer, digests: Sequence[Digest]) -> str:
    """What a person reads."""
    return "\n".join(_text(answer, digests)) + "\n"


def _text(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    yield headline(answer)
    if chinese():
        yield answer.known.zh if answer.known is not None else _ZH[answer.verdict]
    yield f"run: {_run(answer)}"
    yield from _appended(digests)
    if answer.verdict == "finished":
        return
    if answer.verdict in ("explained", "unknown"):
        yield f"started: {_started(answer, digests)}"
        yield from (f"its line: {clean.shown(one)}" for one in code(answer))
    if answer.known is not None:
        yield from _known(answer)
    elif answer.verdict == "unknown":
        yield f"what it means: {_unknown(answer)}"
        yield "type next:"
        steps = (inherited.through_srun(line, answer.facts) for line in _next(answer, digests))
        yield from (f"  - {parted.step(line)}" for line in steps)
    else:
        yield from _unfinished(answer, digests)
    if answer.table is not None:
        yield "ranks side by side:"
        yield from (f"  {row}" for row in _beside(answer.table.rows()))
        yield from _own_logs(answer.table, digests)
    if answer.followed:
        yield f"what followed: {'; '.join(clean.shown(f) for f in answer.followed)}"
    shown = list(excerpt.lines(answer, digests))
    if shown:
        yield "evidence:" if answer.verdict != "unfinished" else "the log before that:"
        yield from shown
    notes = list(_notes(digests))
    if notes:
        yield "also seen:"
        yield from (f"  - {note}" for note in notes)
    if answer.guard:
        yield "what vlmguard said in this run:"
        yield from (f"  - {line}" for line in _guard(answer))
    if answer.known is not None:
        yield f"page: vlmguard rule {answer.known.code}{_page(answer)}"


def _beside(rows: list[str]) -> list[str]:
    """Of very many ranks the first and the last; who never came is the last row."""
    if len(rows) <= 2 * SIDE:
        return rows
    left = len(rows) - 2 * SIDE
    return [*rows[:SIDE], f"… and {left} more (--format json has all)", *rows[-SIDE:]]


def _own_logs(table: watchdog.Table, digests: Sequence[Digest]) -> Iterator[str]:
    """How the own logs of those end that never came, where each rank has one."""
    for rank in table.gone[:4] if absent.each_its_own(digests) else ():
        last = absent.last_words(rank, digests)
        line = f": {excerpt.of(last, digests)}" if last is not None else ""
        yield f"  {absent.told(rank, digests)}{line}"


def _appended(digests: Sequence[Digest]) -> Iterator[str]:
    """That a file holds several runs, and which of them is told."""
    for digest in digests:
        if digest.before:
            name = clean.shown(digest.source.name)
            runs = f"{digest.before} earlier run{'s' if digest.before > 1 else ''}"
            yield f"this log: {name} holds {runs}; told is the last, from line {digest.first} on"
            if digest.ended_before is not None:
                yield f"  the one before it ended: {excerpt.of(digest.ended_before, digests)}"


def _unknown(answer: Answer) -> str:
    """What can be said of a failure that is not in the catalogue."""
    if answer.code in (-6, 134):
        return (
            "SIGABRT: the process ended itself (an assertion in compiled code, NCCL's watchdog, an "
            "exception of C++); the reason stands above in its own output, which this log lacks"
        )
    event = answer.pick.event if answer.pick else None
    if event is None or launchers(event):
        return (
            "these are the launcher's last words; what the failed process printed itself is not "
            "in this log"
        )
    return "not in the catalogue; this is the first failure that the log shows"


def _next(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """What to type where the failure is not known."""
    event = answer.pick.event if answer.pick else None
    if event is None or launchers(event):
        texts = " ".join(line.raw for d in digests for line in answer.evidence)
        deepspeed = "exits with return code" in texts  # its launcher's words
        known = "deepspeed" if deepspeed else "accelerate" if "accelerate/" in texts else ""
        if "rank files" not in answer.facts.seen:
            yield f"{_EACH[known]}, then vlmguard explain LOGS: every rank's own last words"
            alone = _ALONE.get(answer.facts.framework, _ALONE[""])
            yield f"{alone} its traceback is then the log's (2>&1 | tee one.log)"
        if answer.code in (-6, 134):
            yield "PYTHONFAULTHANDLER=1 TORCH_SHOW_CPP_STACKTRACES=1 in front of the command"
    else:
        mended = (flags.say(do, answer.facts) for do in settled_steps(answer.facts))
        yield from list(mended) or unknown.steps(event)
    if event is not None and (names := packages.raised_in(event.frames)):
        yield (
            f"python -m pip show {' '.join(names)} | grep -E '^(Name|Version|Requires)': it was "
            f"raised in {names[0]}; is each of a release that the others ask for?"
        )
    yield _RELEASES


def _guard(answer: Answer) -> Iterator[str]:
    for one in answer.guard:
        who = f" [rank {one.rank}]" if one.rank is not None else ""
        yield clean.shown(f"{one.code} {one.outcome}{who}: {one.why}")[: excerpt.LONGEST]


def _page(answer: Answer) -> str:
    found = finding(answer)
    return f" ({found.url})" if found else ""


def headline(answer: Answer) -> str:
    """One line: the code, what happened, where."""
    if answer.known is not None:
        where = _who(answer)
        return f"{answer.known.code} {answer.known.title}{f' ({where})' if where else ''}"
    if answer.verdict == "unknown":
        what = answer.pick.event if answer.pick else None
        said = "a process failed without a word"
        if what is not None:
            said = f"{what.type}: {_first(what.message)}" if what.type else _CUT
        if what is not None and what.cause is not None:
            said += f", after {what.cause.type}: {_first(what.cause.message)}"
        where = _who(answer)
        return clean.shown(f"not known: {said}{f' ({where})' if where else ''}")[:400]
    if answer.verdict == "finished":
        return "finished: the log marks the end of training, and no failure after it"
    return f"unfinished: {_last(answer)}, no end marker"


def _first(message: str) -> str:
    return next((line.strip() for line in message.split("\n") if line.strip()), "")[:240]


def _last(answer: Answer) -> str:
    steps = answer.facts.steps
    if steps is None:
        return "no training step is told"
    return f"last step {steps[0]} of {steps[1]}" if steps[1] else f"last step {steps[0]}"


def _who(answer: Answer) -> str:
    if not answer.ranks:
        return ""
    named = watchdog.ranks(answer.ranks)
    return named if answer.sure else f"one of {named}"


def _run(answer: Answer) -> str:
    facts = answer.facts
    name = facts.framework or "framework not told"
    key = {"LLaMA-Factory": "llamafactory"}.get(name, name.lower())
    release = facts.releases.get(key) or facts.releases.get(name, "")
    others = [f"{k} {v}" for k, v in facts.releases.items() if k not in (key, name)]
    parts = [f"{name} {release}".strip(), *others[:6]]
    parts += [facts.strategy] if facts.strategy else []
    parts += [f"{facts.world} rank{'s' if facts.world > 1 else ''}"] if facts.world else []
    if facts.use_reentrant is not None:
        parts.append(f"use_reentrant={facts.use_reentrant}")
    if facts.micro:
        parts.append(f"micro-batch {facts.micro} × accumulation {facts.accumulation or '?'}")
    if facts.steps:
        parts.append(_last(answer))
    return clean.shown(", ".join(parts))


def _started(answer: Answer, digests: Sequence[Digest]) -> str:
    who = _who(answer)
    pick = answer.pick
    lane = pick.line.lane.strip("[] ") if pick and not who else ""
    of = f" of {lane}" if lane[:1].isalpha() else ""  # a host, not a rank of this node
    only = answer.how.startswith("only ")
    parts = [who or ("not told" if only else f"a process{of} whose rank the log does not tell")]
    place = pick.event.where if pick and pick.event else None
    if place is not None:
        seen = f"{place[0]}:{place[1]} in {place[2]}"
        other = pick is not None and pick.rank is not None and pick.rank not in answer.ranks
        waited = answer.how.startswith(_OF_OTHERS)
        if pick and other:
            seen = f"seen by rank {pick.rank} at {seen}"
        parts.append(f"seen by another rank at {seen}" if waited and not other else seen)
        parts += _inside(pick, place)
    if answer.facts.phase:
        parts.append(f"phase: {answer.facts.phase}")
    if answer.how and (who or only):
        named = answer.how.startswith(_BY)
        parts.append(f"told by {answer.how}" if named else answer.how)
    alike = set(answer.alike)
    if len(alike) > 1 and alike > set(answer.ranks):  # not those that waited for another one
        parts.append(f"the same failure on {watchdog.ranks(answer.alike)}: told is the first")
    return clean.shown(", ".join(parts))


def code(answer: Answer) -> list[str]:
    """The source of the place that `_started` names, where the traceback prints it."""
    event = answer.pick.event if answer.pick else None
    said = codeline.of(event.trace, event.where) if event and event.where else ""
    return [said] if said and not said.startswith("raise ") else []  # the message says that


def _inside(pick: Candidate | None, place: tuple[str, int, str]) -> list[str]:
    """The package's own frame that raised it, where the place is the user's."""
    frames = pick.event.frames if pick and pick.event else []
    if not frames or frames[-1] == place:
        return []
    path, number, name = frames[-1]
    inside = path.replace("\\", "/").rpartition("-packages/")[2]
    return [f"raised in {inside}:{number} in {name}"]


def _known(answer: Answer) -> Iterator[str]:
    known, facts = answer.known, answer.facts
    assert known is not None
    yield f"what it means: {clean.shown(known.told(facts))}"
    yield "what to do, in this order:"
    for number, do in enumerate(known.remedies(facts), 1):
        cost = f"  [cost: {parted.codes(do.cost)}]" if do.cost not in ("", "none") else ""
        yield f"  {number}. {parted.step(clean.shown(flags.say(do, facts)))}{cost}"
    yield f"when that is wrong: {parted.codes(known.wrong)}"
    if rules := known.rules(facts):
        yield f"vlmguard: sees it beforehand where the cause is one of these: {_rules(rules)}"
        yield "  before the next start: vlmguard check -- YOUR COMMAND"
    else:
        yield "vlmguard: has no rule that sees this beforehand"


def _rules(codes: Sequence[str]) -> str:
    """The rules that see it, each with what it sees."""
    return "; ".join(f"{code} ({TITLES[code]})" for code in codes)


def _unfinished(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    yield from (clean.shown(line) for line in unfinished.told(answer, digests))
    yield "who is where (last line of each):"
    lines = standing.shown(answer.evidence, digests)
    for line in lines[:16]:
        who = f"rank {line.rank}" if line.rank is not None else "log"
        yield f"  {who}: {excerpt.of(line, digests)}"
    if len(lines) > 16:
        yield f"  … and {len(lines) - 16} more"


def _notes(digests: Sequence[Digest]) -> Iterator[str]:
    hits = [hit.decode() for d in digests for hit in d.reading.hits]
    for mark, meaning in NOTES.items():
        if mark[:40] in {hit[:40] for hit in hits}:
            yield f"“{mark}”: {meaning}"
