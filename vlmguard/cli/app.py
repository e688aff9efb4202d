"""``vlmguard doctor`` and ``vlmguard rule``: what is armed here, and what a rule means."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from vlmguard import __version__, registry
from vlmguard.cli import compat as ask
from vlmguard.compat import choice as compat
from vlmguard.compat import defaults
from vlmguard.compat.cases import TUNING, Query
from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard.lab import cli as lab
from vlmguard.runtime import seams
from vlmguard.runtime.arming import is_off

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
app.add_typer(lab.app, name="lab")
_ADAPTERS = {
    "vlmguard_swift": "ms-swift",
    "vlmguard_flagembedding": "FlagEmbedding",
    "vlmguard_colossalai": "colossalai",
}
_SHOWN = ("torch", "transformers", "peft", "deepspeed", "accelerate", "trl")


def _release(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@app.command()
def doctor() -> None:
    """What is installed, whether the guard is on, and which seams this release has."""
    console = Console()
    console.print(f"vlmguard {__version__}, {'off (VLMGUARD)' if is_off() else 'on'}")
    releases = {name: found for name in _SHOWN if (found := _release(name))}
    console.print(", ".join(f"{name} {found}" for name, found in releases.items()) or "no torch")
    if "torch" in releases:
        console.print(_verdicts(releases))
    _show_defaults(console, {**releases, **_frameworks()})
    try:
        used = settings.resolve()
        settings.check_codes(used, registry.get().rules)
        console.print(f"settings {used.digest} from {', '.join(used.sources) or 'defaults'}")
    except SettingsError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(2) from None
    for adapter, distribution in _ADAPTERS.items():
        _show(console, adapter, distribution)


def _frameworks() -> dict[str, str]:
    return {name: found for name in _ADAPTERS.values() if (found := _release(name))}


def _verdicts(releases: dict[str, str]) -> Table:
    """What `compat.choose` answers here for each strategy; tunings with one answer together."""
    table = Table("strategy", "tuning", "verdict", "use_reentrant", "how", title="what works here")
    for strategy in ("ddp", "fsdp2", "zero1", "zero2", "zero3"):
        if strategy.startswith("zero") and "deepspeed" not in releases:
            continue
        rows: dict[tuple[str, ...], list[str]] = {}
        for tuning in TUNING:
            query = Query(
                releases, strategy, strategy, tuning=(tuning,), models=("two_tower", "qwen2_vl")
            )
            choice = compat.answer(query)
            colour = {"works": "green", "nothing": "red"}.get(choice.verdict, "yellow")
            how = choice.evidence if choice.how != "facts" else "earlier facts"
            if choice.untested:
                how = f"not run by us: {', '.join(choice.untested)}; {how}"
            variant = "—" if choice.use_reentrant is None else str(choice.use_reentrant)
            row = (f"[{colour}]{choice.verdict}[/]", variant, how)
            rows.setdefault(row, []).append(tuning)
        for answer, tunings in rows.items():
            named = "any" if len(tunings) == len(TUNING) else ", ".join(tunings)
            table.add_row(strategy, named, *answer)
    return table


def _show_defaults(console: Console, releases: dict[str, str]) -> None:
    """Defaults that an earlier release did not have."""
    changed = [default for default in defaults.in_force(releases) if default.before]
    if not changed:
        return
    table = Table("package", "default", "here", "since", "before", title="changed defaults")
    for found in changed:
        table.add_row(found.package, found.what, found.value, found.since, found.before)
    console.print(table)


@app.command(
    "compat",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def ask_tables(context: typer.Context) -> None:
    """What the measured tables say of any releases, strategy and tuning."""
    raise typer.Exit(ask.main(context.args))


def _show(console: Console, adapter: str, distribution: str) -> None:
    release = _release(distribution)
    if release is None:
        return
    try:
        listed = importlib.import_module(adapter).SEAMS
    except ImportError:
        console.print(f"{distribution} {release}: no adapter is installed")
        return
    table = Table("seam", "state", "where", "what for", title=f"{distribution} {release}")
    for seam in listed:
        state, target = seams.where(seam)
        shown = "there" if state == "waiting" else state
        table.add_row(seam.name, shown, target, seam.why)
    console.print(table)


@app.command()
def rule(code: Annotated[str, typer.Argument(help="a rule's code; all without")] = "") -> None:
    """One rule's page, or the list of rules."""
    rules = registry.get().rules
    console = Console()
    if not code:
        table = Table("code", "name", "default", "what")
        for found in rules.values():
            title = (found.__doc__ or "").strip().partition("\n")[0]
            table.add_row(found.CODE, found.NAME, found.DEFAULT, title)
        console.print(table)
        return
    found = rules.get(code.upper())
    if found is None:
        console.print(f"no rule {code}{settings.nearest(code.upper(), rules)}")
        raise typer.Exit(2)
    console.print(f"[bold]{found.CODE} {found.NAME}[/bold] (default: {found.DEFAULT})\n")
    console.print((found.__doc__ or "").strip(), markup=False)
