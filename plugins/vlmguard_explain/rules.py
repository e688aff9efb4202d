"""What a rule VG5xx says of an exception in a run, and its page: made of the catalogue.
It is asked with the exception instead of a log, and with the guard's own facts."""

from __future__ import annotations

import textwrap
import traceback
from typing import Any

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import case, cause, steps
from vlmguard_explain.lazy import lazy
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.match import classify
from vlmguard_explain.match.catalogue import Known, Step, by_code, table
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.show.headline import chinese
from vlmguard_explain.tracebacks.event import Event, flat

_OURSELVES = lazy(r"pip install '?/path/to/vlmguard")  # no advice here: vlmguard is already active


def speaker(failure: Failure) -> str:
    """The code of the catalogue's entry that ``failure`` is; "" where there is none to say.

    What only says that someone ended the run (SIGTERM, Ctrl-C) is left to logs.
    """
    known = _classified(failure)
    return "" if known is None or known.order == "end" else known.code


def finding(code: str, run: Run | None, batch: Batch | None, failure: Failure) -> Finding:
    """What the entry ``code`` says of ``failure`` in this run."""
    known, facts = by_code()[code], _facts(run, batch, failure)
    every = [flags.say(step, facts) for step in steps(known, facts)]
    advice = "; or ".join([each for each in every if not _OURSELVES.search(each)] or every)
    why = f"{known.zh}\n    " * chinese() + cause(known, facts)
    return Finding(code, "error", why, scope="rank", advice=advice, evidence=known.evidence)


_DID = "Explains an exception, or a line of a log.{} It knows them by texts such as:"
_WHICH = " It prints those of the steps below that fit, and fills in the names in capitals."
_SPELT = ("torch", "transformers", "safetensors", "bfloat16", "target_", "train_", "static_")
_WRAP: Any = {"width": 96, "break_long_words": False, "break_on_hyphens": False}


def page(code: str) -> str:
    """The sections of a rule's page; a list where there are several examples or steps."""
    known, facts = by_code()[code], Facts()
    marks = dict.fromkeys(_quoted(one.text) for one in known.patterns[:8])
    seen = f". vlmguard sees it beforehand by {', '.join(known.prevented)}." * bool(known.prevented)
    first = str if known.cause.startswith(_SPELT) else str.upper
    mark = "- " * (len(known.examples) > 1)
    sections = {
        "What it does": [_DID.format(_WHICH * (len(known.steps) > 1)), *map("- {}".format, marks)],
        "Why it is bad": [first(known.cause[:1]) + known.cause[1:] + (seen or ".")],
        "When it is wrong": [known.wrong],
        "Example": [f"{mark}{' '.join(e['text'].split())} ({e['origin']})" for e in known.examples],
        "Use instead": [line for step in known.steps for line in _step(step, facts)],
        "Evidence": [known.evidence],
        **({"History": [f"Split off from {known.was}."]} if known.was else {}),
    }
    told = (f"\n{title}\n{''.join(map(_wrapped, body))}" for title, body in sections.items())
    return f"{known.title}.\n{''.join(told)}"


def _wrapped(line: str) -> str:
    """As lines of a page; those of a list's entry stand under its text."""
    ahead = " " * (line.index("- ") + 2) if line.lstrip().startswith("- ") else ""
    return textwrap.indent(textwrap.fill(line, subsequent_indent=ahead, **_WRAP), "    ") + "\n"


def _quoted(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _step(step: Step, facts: Facts) -> list[str]:
    """A step, when it is said, and what it costs: entries of a list."""
    where = [f"the log says {' or '.join(map(_quoted, step.when[:2]))}"] * bool(step.when)
    known = [*where, *filter(None, map(table("conditions").get, step.run))]
    told = " and ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))
    cost, done = [f"    - cost: {step.cost}"] * bool(step.cost), flags.marked(step, facts)
    return [f"- if {told}:", f"    - {done}", *cost] if told else [f"- {done}", *cost]


def _classified(failure: Failure) -> Known | None:
    """The catalogue's entry that ``failure`` is."""
    known = classify.classify(_event(failure.error, failure.type, failure.message))
    bug = case(_facts(None, None, failure))
    return by_code()[bug.code] if bug is not None and bug.code else known


def _event(error: BaseException | None, name: str, message: str, depth: int = 0) -> Event:
    """An exception as one that was read from a log."""
    found = Event(Line(0, 0, 0, None, "", None, "", "", ""), name, message)
    if error is None:
        return found
    for frame in traceback.extract_tb(error.__traceback__)[-60:]:
        found.frames.append((frame.filename, frame.lineno or 0, frame.name))
        found.trace.append(f'File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        found.trace.append(frame.line or "")  # as in a log
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and depth < 4:
        found.cause = _event(before, type(before).__name__, str(before), depth + 1)
    return found


def _facts(run: Run | None, batch: Batch | None, failure: Failure) -> Facts:
    """What the guard knows of the run, as the catalogue's texts read it."""
    raised = _event(failure.error, failure.type, failure.message)
    known = Facts() if run is None else _of(run, batch)
    return known.at(flat(f"{failure.type}: {failure.message}"), raised.phase, raised)


def _of(run: Run, batch: Batch | None) -> Facts:
    used, tower = run.checkpointing, run.tower("vision")
    blind = bool(run.towers) and not any(tower.sees for tower in run.towers)
    return Facts(
        framework=run.framework,
        releases=run.releases,
        strategy=run.strategy,
        world=run.world,
        micro=len(batch.samples) or None if batch else None,
        accumulation=run.accumulation,
        use_reentrant=used.use_reentrant if used.on else None,
        find_unused=run.find_unused,
        static_graph=run.static_graph,
        checkpointing=used.on,
        tuning=run.tuning,
        freeze_tower=None if tower is None else not tower.trainable,
        kinds=batch.kinds if batch else (),
        seen=frozenset(("text model",)) if blind else frozenset(),  # a reranker, for example
        fields={"cutoff": " and ".join(run.cut_off)},
        run=run,
    )
