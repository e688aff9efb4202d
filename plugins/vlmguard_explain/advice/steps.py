"""What to do about a failure, in this order: a known bug's fix, the failure's own steps as the
catalogue has them, and what is not sure."""

from __future__ import annotations

import re

from vlmguard_explain.advice.flags import holds
from vlmguard_explain.advice.packages import older
from vlmguard_explain.advice.values import filled, known, of
from vlmguard_explain.lazy import patterns
from vlmguard_explain.match.catalogue import Case, Known, Step, cases, table
from vlmguard_explain.run.logfacts import Facts

UNSURE = "not sure: "
_P = patterns("advice.steps")


def steps(failure: Known, facts: Facts) -> tuple[Step, ...]:
    """The steps that fit this run, without what it had already."""
    fit = [step for step in failure.steps if fits(step, facts)]
    kinds = {step.kind: step for step in reversed(fit)}
    firsts = [one for one in fit if not one.kind or kinds[one.kind] is one] or list(failure.steps)
    found = [one for one in firsts if not had(one.do, facts)] or firsts
    bug, mended = case(facts), of_bug(facts)
    if bug is not None and mended and not bug.more:
        return mended
    return (*mended, *sorted(found, key=lambda step: _late(step, failure)))


def _late(step: Step, failure: Known) -> tuple[bool, bool]:
    """What is not sure comes last, and what only shows something behind what changes the run,
    unless the log does not say why the run waited or ended."""
    said = table("changes").get(step.do, {}).get("usual", step.do)
    return said.startswith(UNSURE), failure.order == "cause" and _P.look.match(said) is not None


def cause(failure: Known, facts: Facts) -> str:
    """What it means in this run."""
    bug = case(facts)
    if bug is not None and bug.cause:
        return bug.cause
    other = next((one for one in failure.causes if fits(one, facts)), None)
    return filled(other.do, of(facts)) if other is not None else failure.cause


def case(facts: Facts) -> Case | None:
    """The known bug that this message and traceback are."""
    return next((one for one in cases() if facts.message and _is(one, facts)), None)


def _is(one: Case, facts: Facts) -> bool:
    if not one.matches(facts.message, facts.trace):
        return False
    old = one.since and older(one.since, facts.releases) is True
    return not old and not (one.mended and older(one.mended, facts.releases) is False)


def of_bug(facts: Facts) -> tuple[Step, ...]:
    """The steps of the known bug that this is: of each the first wording whose values are known."""
    bug, values = case(facts), of(facts)
    steps = bug.steps if bug is not None else ()
    found = (next((way for way in ways if known(way, values)), "") for ways in steps)
    return tuple(Step(one) for one in found if one and not had(one, facts))


def fits(step: Step, facts: Facts) -> bool:
    """Whether its conditions hold and its values are known."""
    message, values = facts.message, of(facts)
    silent = not step.silent or not message.partition(":")[2].strip()
    when = not step.when or any(text in message for text in step.when)
    if not (silent and when) or any(text in message for text in step.unless):
        return False
    there = step.do in table("changes") or known(step.do, values)
    return there and all(holds(one, facts, values) for one in step.run)


_SETTINGS = re.compile(r"(?:[A-Z][A-Z0-9_]{3,40}=[\w:.,-]{1,60} ){1,20}")


def had(action: str, facts: Facts) -> bool:
    """Whether the log says that the run had ``action`` before it failed."""
    usual = str(table("changes").get(action, {}).get("usual", action)).lstrip("`")
    asked, env = _SETTINGS.match(usual), facts.fields.get("env", "").split()
    if env and asked:
        return all(setting in env for setting in asked[0].split())
    return any(holds(one, facts, {}) for one in table("already").get(action, ()))
