"""``vlmguard doctor``: what is installed here, whether the guard is armed, what was measured.

Plain text without frames, fit to be pasted into an issue.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

import vlmguard
from vlmguard import __version__
from vlmguard.cli import cards, messages, probe

if TYPE_CHECKING:
    from vlmguard.compat.choice import Choice

SHOWN = ("torch", "transformers", "accelerate", "peft", "trl", "deepspeed")
_TUNING = {
    "full": "everything",
    "lora": "LoRA",
    "lora_tower": "LoRA, and the vision tower",
    "frozen_tower": "everything but the vision tower",
}
_SOURCE = {
    "measured": "run on these releases",
    "interpolated": "run on releases around these",
    "facts": "from earlier runs",
    "nearest": "taken from the nearest releases that were run",
}
HOME = os.path.dirname(os.path.dirname(os.path.abspath(vlmguard.__file__)))
"""The folder that this vlmguard was imported from."""
PARTS = {
    "vlmguard_accelerate.plain_seams": ", scripts that use DDP without a trainer",
    "vlmguard_torch": ", the ledger",
}
"""What an adapter is for, where the framework's name does not tell it."""
OTHERWISE = """\
    vlmguard run -- swift sft …     (your command, behind "vlmguard run --")
    import vlmguard.auto            (first line of your script, before the framework)
    pip install /path/to/vlmguard   (its checkout or wheel, without --target)
"""


@dataclass
class Report:
    """All that doctor found out.

    Attributes:
        off: ``VLMGUARD`` switches the guard off.
        problem: why a Python that is started here is not armed; "" if it is.
        settings: digest and sources, or "error".
        others: rules that third parties brought.
        profiles: theirs that entry points name, each with the framework's name there.
        works: for each strategy and tuning, what the tables say.
        defaults: defaults of installed releases that earlier ones did not have.
        cards: what torch was built for, and this machine's GPUs, as lines.
    """

    off: bool
    start: probe.Start
    problem: str
    packages: dict[str, str]
    frameworks: list[probe.Attached] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    works: list[dict[str, Any]] = field(default_factory=list)
    defaults: list[dict[str, str]] = field(default_factory=list)
    cards: list[str] = field(default_factory=list)

    @property
    def armed(self) -> bool:
        return not self.problem

    @property
    def well(self) -> bool:
        """Whether a training that is started here is guarded as it should be."""
        lost = [seam for each in self.frameworks for seam in each.seams if seam.lost]
        failed = [each for each in self.frameworks if each.error or each.unseen]
        return self.armed and not lost and not failed and "error" not in self.settings


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("doctor")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON for another program")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="list every function that vlmguard wraps")
    ] = False,
) -> None:
    """Say whether vlmguard is active here.

    It names the frameworks that are installed here. It starts a Python process as a training
    would, and one process for each framework, which imports it. That takes up to half a minute.

    Exit status: 0, all is well; 1, vlmguard is not active or does not see a part of a framework;
    2, a setting cannot be read.
    """
    if not as_json and sys.stderr.isatty():
        typer.echo("starting a Python and importing the frameworks in it …", err=True)
    found = look()
    if as_json:
        messages.show_json({"vlmguard": __version__, "armed": found.armed, **asdict(found)})
    else:
        typer.echo("\n".join(text(found, verbose)))
    raise typer.Exit(2 if "error" in found.settings else int(not found.well))


def look() -> Report:
    """Find everything out."""
    from vlmguard.runtime.stub import is_off

    start = probe.start()
    packages = {name: release for name in SHOWN if (release := _release(name))}
    frameworks = {each.name: each.release for each in start.frameworks}
    with ThreadPoolExecutor(2) as pool:
        seen = pool.submit(cards.look) if "torch" in packages else None
        attached = list(pool.map(probe.attach, start.frameworks))
    return Report(
        off=is_off(),
        start=start,
        problem=_problem(start),
        packages=packages,
        cards=seen.result() if seen else [],
        frameworks=attached,
        settings=_settings(),
        others=_others(),
        profiles=_profiles(),
        works=list(_works(packages)) if "torch" in packages else [],
        defaults=[asdict(each) for each in _changed({**packages, **frameworks})],
    )


def _problem(start: probe.Start) -> str:
    if start.error:
        return f"a Python could not be asked: {start.error}"
    if start.in_place:
        return ""
    if start.no_site:
        return "this Python was started with -S, which reads no .pth file"
    return f"vlmguard lies in {start.home}, where Python reads no .pth file"


def _release(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _settings() -> dict[str, Any]:
    from vlmguard import registry
    from vlmguard.core import settings
    from vlmguard.core.errors import SettingsError

    try:
        used = settings.resolve()
        settings.check_codes(used, registry.get().rules)
    except SettingsError as error:
        return {"error": str(error)}
    return {"digest": used.digest, "sources": list(used.sources), "rules": dict(used.rules)}


def _others() -> list[str]:
    """Codes and names of rules that are not ours."""
    from vlmguard import registry

    rules = sorted(registry.get().rules.items())
    return [f"{code} {rule.NAME}" for code, rule in rules if not code.startswith("VG")]


def _profiles() -> list[str]:
    """Profiles of other packages by their entry points; none of them is imported."""
    from importlib import metadata

    entries = metadata.entry_points(group="vlmguard.profiles")
    return sorted({f"{entry.name} ({entry.value})" for entry in entries})


def _works(releases: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What `compat.choose` answers here for each strategy; tunings with one answer together."""
    from vlmguard.compat import cases, choice

    for strategy in ("ddp", "fsdp2", "zero1", "zero2", "zero3"):
        if strategy.startswith("zero") and "deepspeed" not in releases:
            continue
        answers: dict[tuple[str, str, str], list[str]] = {}
        for tuning in cases.TUNING:
            query = cases.Query(
                releases, strategy, strategy, tuning=(tuning,), models=("two_tower", "qwen2_vl")
            )
            answers.setdefault(_answer(choice.answer(query)), []).append(tuning)
        for (verdict, variant, source), tunings in answers.items():
            yield {"strategy": strategy, "tuning": tunings, "verdict": verdict,
                   "checkpointing": variant, "source": source}  # fmt: skip


def _answer(choice: Choice) -> tuple[str, str, str]:
    variant = {True: "reentrant", False: "non-reentrant", None: "none"}[choice.use_reentrant]
    source = _SOURCE.get(choice.how, "not known")
    if choice.untested:
        source = f"not run with {', '.join(choice.untested)}: {_SOURCE['nearest']}"
    return choice.verdict, variant, source


def _changed(releases: Mapping[str, str]) -> Iterator[Any]:
    from vlmguard.compat import defaults

    return (default for default in defaults.in_force(releases) if default.before)


def text(found: Report, verbose: bool = False) -> Iterator[str]:
    """The report, line by line."""
    yield f"vlmguard {__version__}, Python {platform.python_version()}, {platform.system()}"
    yield ", ".join(f"{n} {r}" for n, r in found.packages.items()) or "torch is not installed"
    yield from found.cards
    yield ""
    yield from _arming(found)
    yield ""
    yield from _frameworks(found, verbose)
    if found.others:
        yield f"rules of other packages: {', '.join(found.others)}"
    if found.profiles:
        yield f"profiles of other packages: {', '.join(found.profiles)}"
    if "error" not in found.settings:
        yield from _settings_text(found)
    if found.works:
        yield ""
        yield "gradient checkpointing that works here (vlmguard chooses it by itself):"
        yield from messages.columns(_rows(found.works))
    if found.defaults:
        yield ""
        yield "defaults that changed in the releases that are installed here:"
        for row in found.defaults:
            short = max(len(row["value"]), len(row["before"])) < 30
            values = f": {row['value']} (before: {row['before']})" if short else ""
            yield f"  {row['package']} {row['since']} and later: {row['what']}{values}"
    if "error" in found.settings:
        yield ""
        yield f"settings cannot be read: {found.settings['error']}"


def _arming(found: Report) -> Iterator[str]:
    if found.armed:
        yield "armed: yes. Every Python of this environment loads the guard by itself."
        if found.start.home not in ("", HOME):
            yield f"  It loads vlmguard from {found.start.home}; this one is from {HOME}."
    else:
        yield f"armed: NO. {found.problem}."
        yield "  A training that you start here is not guarded. Each of these activates vlmguard:"
        yield from OTHERWISE.splitlines()
    if found.off:
        yield "switched off by the variable VLMGUARD: unset it to switch vlmguard on."


def _frameworks(found: Report, verbose: bool) -> Iterator[str]:
    if not found.frameworks and not found.start.error:
        yield "no framework that vlmguard knows is installed here"
    for each in found.frameworks:
        name = _named(each)
        if each.error:
            yield f"{name}: cannot be imported here: {each.error}"
            continue
        if each.unseen:
            yield f"{name}: NOT GUARDED: its import is not seen here"
            continue
        if not each.seams:
            yield f"{name}: guarded through the library that it trains with"
            continue
        there = [seam for seam in each.seams if seam.state == "attached"]
        wanted = [seam for seam in each.seams if seam.state != "absent"]
        yield f"{name}: {len(there)} of {len(wanted)} seams attached" + (
            "" if found.armed else " (when armed)"
        )
        for seam in each.seams:
            if verbose or seam.lost:
                yield f"  {_seam(seam)}"
    for package, place in found.start.others.items():
        yield f"{package} in {place}: another package of that name, left alone"
    if found.start.absent:
        yield f"not installed here: {', '.join(found.start.absent)}"


def _named(each: probe.Attached) -> str:
    """Name, release, and where from, if not from this environment's own packages."""
    framework, version = each.framework, each.version
    release = version or framework.release or "of unknown release"
    where = f" ({framework.how}: {framework.place})" if framework.how else ""
    if version and framework.release and not _same(version, framework.release):
        where += f" (its metadata say {framework.release}: install it again)"
    return f"{framework.name} {release}{PARTS.get(framework.adapter, '')}{where}"


def _same(one: str, other: str) -> bool:
    """A torch of the index is 2.5.1 by its metadata, and calls itself 2.5.1+cu124."""
    from packaging.utils import canonicalize_version

    if ("+" in one) != ("+" in other):
        one, other = one.partition("+")[0], other.partition("+")[0]
    return canonicalize_version(one) == canonicalize_version(other)


def _seam(seam: probe.Seam) -> str:
    if seam.state == "attached":
        return f"{seam.name}: {seam.target}: {seam.why}"
    if seam.state == "absent":
        return f"{seam.name}: not needed, its package is not installed: {seam.why}"
    if seam.error:
        return f"{seam.name}: CANNOT BE IMPORTED: {seam.error}"
    lost = "not in this release" if seam.optional else "NOT THERE, so not guarded"
    return f"{seam.name}: {lost}: {seam.why}"


def _settings_text(found: Report) -> Iterator[str]:
    used = found.settings
    yield f"settings: {used['digest']} from {', '.join(used['sources']) or 'defaults'}"
    for code, policy in used["rules"].items():
        yield f"  {code} = {policy}"


def _rows(works: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("strategy", "what trains", "checkpointing", "how that is known")
    for row in works:
        trains = "anything" if len(row["tuning"]) == len(_TUNING) else ""
        trains = trains or "; ".join(_TUNING[tuning] for tuning in row["tuning"])
        variant = {"nothing": "NONE WORKS", "unknown": "not known"}.get(row["verdict"])
        yield (row["strategy"], trains, variant or row["checkpointing"], row["source"])
