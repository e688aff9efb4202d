"""What is printed and reported about a run: its first line, what was changed, what has held, the
line of its first step."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vlmguard import __version__, agree, registry
from vlmguard.core import plan
from vlmguard.core.facts import Run
from vlmguard.core.findings import as_data
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report

_RELEASE = ".".join(__version__.split(".")[:2])
Changes = Mapping[str, Sequence[str]]
"""What was changed, as "what: from → to": by "variant", "freeze", "loss" and "blank"."""
_HELD = "held"
"""Findings whose remedy was seen to hold, in what a run keeps."""


def header(state: RunState, run: Run, wanted: Plan) -> None:
    """The run, in the report; and the first line."""
    used = state.settings
    report.write(
        "header",
        {
            "vlmguard": __version__,
            "framework": run.framework,
            "releases": dict(run.releases),
            "strategy": run.strategy,
            "world": run.world,
            "phase": run.phase,
            "settings": {"rules": dict(used.rules), "freeze": used.freeze, "digest": used.digest},
            "plan": [as_data(remedy) for remedy in wanted.remedies],
        },
        state,
    )
    if report.rank() == 0 and not _quiet(state, run, wanted):
        report.line(greeting(state, run))
        missed = agree.unheard(state, run)
        if missed:
            report.line(missed)


def greets(state: RunState) -> bool:
    """Whether the run is spoken to where nothing is wrong with it."""
    run = state.run
    return run is None or not _quiet(state, run, state.plan)


def _quiet(state: RunState, run: Run, wanted: Plan) -> bool:
    """Whether there is nothing to greet for: no tower or one process, and nothing to say."""
    if state.speaks:
        return False
    return (run.world < 2 or not run.image_towers) and wanted == Plan()


def greeting(state: RunState, run: Run) -> str:
    """The first line. Ranks whose digests differ would not decide alike."""
    used = state.settings
    sources = f" from {', '.join(used.sources)}" if used.sources else ""
    release = run.releases.get(run.framework, "")
    ranks = f"{run.world} rank{'' if run.world == 1 else 's'}"
    return (
        (
            f"{__version__} guards {run.framework} {release}, {run.strategy}, {ranks}, "
            f"by {_rules(state, run)} rules; "
            f"settings {used.digest}{sources} (VLMGUARD=off switches it off)"
        )
        .replace("  ", " ")
        .replace(" , ", ", ")
    )


def _rules(state: RunState, run: Run) -> int:
    """How many rules judge this run: those for its framework that are not switched off."""
    found = registry.get().applying(run.framework)
    return sum(state.settings.policy(rule.CODE, rule.DEFAULT) != "off" for rule in found)


def changed(state: RunState, wanted: Plan, changes: Changes) -> None:
    """What was changed. A blank input has held only once a forward ran on it: until then it is
    set, as is what would not have failed."""
    told: set[str] = set()
    for finding in wanted.fixes:
        kinds = plan.kinds(finding)
        neutral = finding.level == "note"
        if neutral:
            state.neutral[finding.code] = finding
        if "blank" in kinds and not neutral:
            state.set[finding.code] = finding
        outcome = "set" if "blank" in kinds or neutral else "fixed"
        done = [change for kind in kinds if kind not in told for change in changes.get(kind, ())]
        told.update(kinds)
        report.say(finding, outcome, "; ".join(done) or "the same change", state)


def confirmed(state: RunState, how: str) -> None:
    """What was set has shown that it holds, on this rank."""
    for finding in list(state.set.values()):
        report.say(replace(finding, scope="rank"), "fixed", how, state)
    state.kept.setdefault(_HELD, {}).update(state.set)
    state.set.clear()


def taken_back(state: RunState, how: str, error: BaseException) -> None:
    """The run failed where what was set should have held: no longer "fixed", and ``error`` says
    so under its traceback."""
    found = {**state.kept.pop(_HELD, {}), **state.set}
    state.set.clear()
    for code, finding in found.items():
        if code in state.fixed:
            state.fixed.remove(code)
        told = replace(finding, scope="rank")
        data = {**told.as_dict(state.spell), "outcome": "taken back", "change": how}
        report.write("finding", data, state)
        explain(error, f"vlmguard: {report.text(told, 'taken back', how, state)}")


def proved(state: RunState, code: str, how: str) -> None:
    """What might never have come true has come true on this rank, and the change held."""
    finding = state.neutral.pop(code, None)
    if finding is not None:
        report.say(replace(finding, scope="rank"), "fixed", how, state)


def first_step(state: RunState) -> None:
    """The one line of a run's first step, on global rank 0."""
    if state.stepped or state.run is None:
        return
    state.stepped = True
    rules = _rules(state, state.run)
    facts = list(state.run.unjudged)
    number = state.counts["unjudged"] + len(facts)
    counted = {"fixed": sorted(state.fixed), "set": sorted(state.set)}
    report.write(
        "summary", {"rules": rules, "unjudged": number, "assumed": facts, **counted}, state
    )
    loud = state.speaks or state.counts.total()
    if loud and report.rank() == 0 and report.worker() is None:
        report.line(f"{_RELEASE}: {report.summary(rules, state)}")
    state.at_close(functools.partial(_last_word, weakref.ref(state), tuple(state.fixed)))


def _last_word(held: weakref.ref[RunState], known: Sequence[str]) -> None:
    """At the run's end: what has held since its first step was summed up."""
    state = held()
    if state is None or not any(code not in known for code in state.fixed):
        return
    report.write("end", {"fixed": sorted(state.fixed), "set": sorted(state.set)}, state)
    if report.rank() == 0 and report.worker() is None:
        report.line(f"{_RELEASE}: at the end {report.mended(state)}")


def explain(error: BaseException, text: str) -> None:
    """Put ``text`` under the traceback that Python, torchrun or a notebook will print."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    else:  # Python 3.10
        report.line(text.removeprefix("vlmguard: "))
