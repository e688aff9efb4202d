"""The order of events, the same for every adapter: facts → rules → plan → apply → look again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from vlmguard import agree, registry, run_report
from vlmguard.compat import choice as compat
from vlmguard.core import plan, runstate, settings
from vlmguard.core.errors import SettingsError, Stop
from vlmguard.core.facts import Batch, Failure, Gradients, Run
from vlmguard.core.findings import Finding, Spell, Variant, cut
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.run_report import Changes
from vlmguard.runtime import exchange, report, seams
from vlmguard.runtime.faults import contain

Apply = Callable[[Plan], Changes]


def default_policy(code: str) -> str:
    """A rule's own policy; "warn" for a finding whose code no rule has."""
    return getattr(registry.get().rules.get(code), "DEFAULT", "warn")


def chosen(run: Run) -> tuple[Variant | None, Finding | None]:
    """`compat.choose` as a remedy: only what differs from what will happen anyway."""
    choice = compat.choose(run)
    if choice.verdict == "nothing":
        return None, compat.nothing(choice)
    current = {
        "use_reentrant": run.checkpointing.use_reentrant,
        "find_unused": run.find_unused,
        "static_graph": run.static_graph,
    }
    wanted = {
        key: value
        for key, value in current.items()
        if getattr(choice, key) is not None and getattr(choice, key) != value
    }
    values = {key: getattr(choice, key) for key in wanted}
    return (Variant(**values) if values else None), None


def checked() -> settings.Settings:
    """The settings in force, checked against the rules.

    Raises:
        SettingsError: a setting that cannot be read, or names no rule.
    """
    used = settings.renew()
    settings.check_codes(used, registry.get().rules)
    return used


def pre_wrap(
    translate: Callable[[], Run],
    apply: Apply,
    check: Callable[[], None] = lambda: None,
    owner: Any = None,
    spell: Spell | None = None,
    speaks: bool = True,
) -> RunState | None:
    """Judge a run before it is wrapped, mend it, and look again.

    Args:
        translate: reads the framework's objects; called again after ``apply``.
        apply: makes the plan's changes, all or none; on an exception it has restored what it
            had set.
        check: raises `SettingsError` for a setting that this model cannot obey.
        owner: the object that will lead to the state: a trainer, a booster.
        spell: how the framework writes a piece of advice.
        speaks: whether to greet a run in which there is nothing to say.

    Returns:
        The open state of the run, or None if the run could not be read. Whoever calls holds it:
        nothing else does. `close` ends it.

    Raises:
        Stop: a finding for which training must not go on.
    """
    try:
        state = RunState(checked(), spell, speaks=speaks)
        contain("checking the freeze policy", check)
    except SettingsError as error:
        contain("telling torchrun", abort, error)
        raise
    except Exception:
        contain("telling the other ranks", announce_skip)
        raise
    if owner is not None:
        runstate.bind(owner, state)
    runstate.opened(state)
    try:
        seams.wake()
        state.run = _judged(state, translate, apply)
    except BaseException as error:
        if not isinstance(error, Stop):
            contain("telling the other ranks", agree.nothing, state)
        close(state)
        raise
    if not isinstance(state.run, Run):
        contain("telling the other ranks", agree.nothing, state)
        close(state)
        return None
    runstate.publish(state)
    return state


def abort(error: BaseException) -> None:
    """Tell torchrun why this rank ends. Imported here: a healthy run needs nothing of it."""
    from vlmguard.runtime import stop as ending

    ending.abort(error)


def announce_skip() -> None:
    """A fault of ours keeps this rank from looking at a run: it is counted as on the other ranks,
    and they are told that nothing is changed here."""
    agree.nothing(RunState(settings.Settings()))


def _judged(state: RunState, translate: Callable[[], Run], apply: Apply) -> Run | None:
    run = state.run = contain("reading the run", translate)
    if not isinstance(run, Run):
        return None
    odd = contain("comparing the ranks' settings", agree.basis, state, run)
    findings = registry.get().pre_wrap(run)
    wanted = state.plan = plan.make(findings, state.settings, default_policy, run, chosen)
    contain("saying what is guarded", run_report.header, state, run, wanted)
    judge([odd] if odd is not None else [], state)
    for finding in wanted.warns:
        outcome = "warned" if finding.level == "warning" else ""
        contain("saying a finding", report.say, finding, outcome, "", state)
    if wanted.stops:
        stop(wanted.stops, state)
    if not wanted.remedies:
        contain("telling the other ranks", agree.plan, state, run, wanted)
        return run
    changes = contain("applying the plan", apply, wanted)
    if not isinstance(changes, Mapping):  # a fault of vlmguard: the run goes on unchanged
        state.plan = Plan()
        contain("telling the other ranks", agree.nothing, state)
        return run
    contain("telling the other ranks", agree.plan, state, run, wanted)
    after = contain("reading the run again", translate)
    if not isinstance(after, Run):
        return run
    state.run = after
    verify(wanted, after, state)
    contain("saying what was changed", run_report.changed, state, wanted, changes)
    return after


def state_of(owner: Any) -> RunState | None:
    """The open run that ``owner`` leads to, for wrappers: never raises."""
    found = contain("finding the run", runstate.of, owner)
    return found if isinstance(found, RunState) else None


def look_again(state: RunState) -> None:
    """At the first step: whether the ranks decided alike. Never waits; raises `Stop` if not."""
    odd = agree.look(state)
    judge([odd] if odd is not None else [], state)


def verify(wanted: Plan, after: Run, state: RunState | None = None) -> None:
    """The rules that asked for a remedy must be silent now; one that did not take is an error."""
    codes = {finding.code: finding for finding in wanted.fixes}
    left = [f for f in registry.get().pre_wrap(after) if f.code in codes and f.remedies]
    if not left:
        return
    serious = any(finding.level == "error" for finding in left)
    names = ", ".join(sorted({finding.code for finding in left}))
    finding = Finding(
        "VG903",
        "error" if serious else "warning",
        f"vlmguard's change for {names} had no effect: {cut(left[0].why, 90)}",
        advice=("please report this line", "VLMGUARD=off starts the run without vlmguard"),
        evidence=left[0].why,
    )
    judge([finding], state)


def close(state: RunState | None) -> None:
    """Let go of a run, whatever it held; idempotent."""
    if state is None or state.closed:
        return
    try:
        for call in state.closers():
            contain("letting go of the run", call)
    finally:  # under a user's policy the ledger may stop the run at its last pages
        exchange.let_go()
        runstate.closed(state)


def pre_step(
    about: RunState | Run, batch: Batch | None = None, gradients: Gradients | None = None
) -> None:
    """Judge a batch or the gradients of a run, given by its state or its facts. Raises `Stop` where
    going on would be wrong."""
    state = about if isinstance(about, RunState) else runstate.of_run(about)
    run = about.run if isinstance(about, RunState) else about
    if run is not None:
        judge(registry.get().pre_step(run, batch, gradients), state)


def in_force(state: RunState | None) -> settings.Settings:
    """The settings of a run; the process's without one."""
    return state.settings if state is not None else settings.get()


def judge(findings: Iterable[Finding], state: RunState | None = None) -> None:
    """Say each finding of a run under its policy; stop for those that must not pass."""
    found = list(findings)
    if not found:  # this runs for each batch of each step
        return
    used, stops = in_force(state), []
    for finding in found:
        policy = used.policy(finding.code, default_policy(finding.code))
        if policy == "off":
            continue
        if plan.must_stop(finding, policy, used) is True:
            stops.append(finding)
        elif state is None or state.first(finding):
            report.say(finding, "warned" if finding.level == "warning" else "", state=state)
    if stops:
        stop(stops, state)


def stop(findings: Iterable[Finding], state: RunState | None = None) -> None:
    """Say why, and raise `Stop`. In a rank's main process torchrun is told the reason."""
    findings = list(findings)
    spell = state.spell if state is not None else None
    for finding in findings:
        report.say(finding, "stopped", state=state)
    error = Stop(*report.reasons(findings, spell))
    if report.worker() is None:
        contain("telling torchrun", abort, error)
    raise error


def on_error(
    run: Run | None, batch: Batch | None, error: BaseException, state: RunState | None = None
) -> None:
    """Explain a known exception under its traceback; the exception itself goes on unchanged.

    Args:
        run: what rules are told of.
        state: of the run; found by ``run`` if not given.
    """
    if isinstance(error, Stop):
        # A dataloader worker raised it. torchrun watches this process, where it is raised again.
        contain("telling torchrun", abort, error)
        return
    state = state or runstate.of_run(run)
    spell = state.spell if state is not None else None
    failure = Failure(type(error).__name__, str(error), error)
    for finding in registry.get().on_error(run, batch, failure):
        if in_force(state).policy(finding.code, default_policy(finding.code)) == "off":
            continue
        data = {**finding.as_dict(spell), "outcome": "explained", "change": ""}
        report.write("finding", data, state)
        told = report.text(replace(finding, scope="rank"), "explained", state=state)
        run_report.explain(error, f"vlmguard: {told}")
