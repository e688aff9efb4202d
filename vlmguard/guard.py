"""The order of events, the same for every adapter: facts → rules → plan → apply → look again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

from vlmguard import __version__, registry
from vlmguard.compat import choice as compat
from vlmguard.core import plan, settings
from vlmguard.core.errors import SettingsError, Stop
from vlmguard.core.facts import Batch, Failure, Gradients, Run
from vlmguard.core.findings import Finding, Variant
from vlmguard.core.plan import Plan
from vlmguard.runtime import report
from vlmguard.runtime.faults import contain
from vlmguard.runtime.stop import bring_down

Apply = Callable[[Plan], tuple[str, ...]]


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


def begin() -> None:
    """Check the settings against the rules that are loaded. Raises `settings.SettingsError`."""
    settings.check_codes(settings.get(), registry.get().rules)


def pre_wrap(
    translate: Callable[[], Run], apply: Apply, check: Callable[[], None] = lambda: None
) -> Run | None:
    """Judge a run before it is wrapped, mend it, and look again.

    Args:
        translate: reads the framework's objects; called again after ``apply``.
        apply: makes the plan's changes, all or none, and answers with one "what: from → to" for
            each; on an exception it has restored what it had set.
        check: raises `settings.SettingsError` for a setting that this model cannot obey.

    Returns:
        The run as it will be, or None if it could not be read.

    Raises:
        Stop: a finding for which training must not go on.
    """
    try:
        begin()
        contain("checking the freeze wish", check)
    except SettingsError as error:
        contain("telling torchrun", bring_down, error)
        raise
    run = contain("reading the run", translate)
    if run is None:
        return None
    if report.rank() == 0:
        report.line(greeting(run))
    findings = registry.get().pre_wrap(run)
    wanted = plan.make(findings, settings.get(), default_policy, run, chosen)
    for finding in wanted.warns:
        report.say(finding, "warned" if finding.level == "warning" else "")
    if wanted.stops:
        stop(wanted.stops)
    if not wanted.remedies:
        return run
    changes = contain("applying the plan", apply, wanted)
    if changes is None:  # our fault: nothing is applied, the run goes on as it would have
        return run
    after = contain("reading the run again", translate)
    if after is None:
        return run
    verify(wanted, after)
    for number, finding in enumerate(wanted.fixes):
        report.say(finding, "fixed", "; ".join(changes) if number == 0 else "the same change")
    return after


def greeting(run: Run) -> str:
    """The first line. Ranks whose digests differ would not decide alike."""
    used = settings.get()
    sources = f" from {', '.join(used.sources)}" if used.sources else ""
    release = run.releases.get(run.framework, "")
    return (
        f"{__version__} guards {run.framework} {release}, {run.strategy}, {run.world} ranks; "
        f"settings {used.digest}{sources} (VLMGUARD=off switches it off)"
    )


def verify(wanted: Plan, after: Run) -> None:
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
        f"the remedy for {names} did not take: {left[0].why}",
        advice="please report it; VLMGUARD=off runs without us",
    )
    judge([finding])


def pre_step(run: Run, batch: Batch | None = None, gradients: Gradients | None = None) -> None:
    """Judge a batch or the gradients. Raises `Stop` where going on would be wrong."""
    judge(registry.get().pre_step(run, batch, gradients))


def judge(findings: Iterable[Finding]) -> None:
    """Say each finding under its policy; stop for those that must not pass."""
    stops = []
    for finding in findings:
        policy = settings.get().policy(finding.code, default_policy(finding.code))
        if policy == "off":
            continue
        if plan.must_stop(finding, policy, settings.get()):
            stops.append(finding)
        elif first(finding):
            report.say(finding, "warned" if finding.level == "warning" else "")
    if stops:
        stop(stops)


_seen: dict[tuple[str, str], int] = {}


def first(finding: Finding) -> bool:
    """Whether to print it: the same code and sentence once a process."""
    key = (finding.code, finding.why)
    _seen[key] = _seen.get(key, 0) + 1
    return _seen[key] == 1


def stop(findings: Iterable[Finding]) -> None:
    """Say why, and raise `Stop`. In a rank's main process torchrun is told the reason."""
    findings = list(findings)
    for finding in findings:
        report.say(finding, "stopped")
    reasons = "; ".join(f"{f.code}: {f.why}. {f.advice}".rstrip(". ") for f in findings)
    error = Stop(
        f"vlmguard stopped this run ({report.who()}). {reasons}. "
        f"To go on regardless: VLMGUARD_RULES={findings[0].code}=warn"
    )
    if report.worker() is None:
        contain("telling torchrun", bring_down, error)
    raise error


def on_error(run: Run | None, batch: Batch | None, error: BaseException) -> None:
    """Explain a known exception under its traceback; the exception itself goes on unchanged."""
    if isinstance(error, Stop):
        # Raised in a dataloader worker, re-raised here: this is the process that torchrun watches.
        contain("telling torchrun", bring_down, error)
        return
    failure = Failure(type(error).__name__, str(error), error)
    for finding in registry.get().on_error(run, batch, failure):
        if settings.get().policy(finding.code, default_policy(finding.code)) == "off":
            continue
        report.write("finding", {**finding.as_dict(), "outcome": "explained", "change": ""})
        explain(error, f"vlmguard: {report.text(replace(finding, scope='rank'), 'explained')}")


def explain(error: BaseException, text: str) -> None:
    """Put ``text`` under the traceback that Python, torchrun or a notebook will print."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    else:  # Python 3.10
        report.line(text.removeprefix("vlmguard: "))


@functools.cache
def first_step() -> None:
    """The one line of the first step, on global rank 0."""
    report.write("summary", {"rules": len(registry.get().rules)})
    if report.rank() == 0 and report.worker() is None:
        report.line(report.summary(len(registry.get().rules)).removeprefix("vlmguard "))
