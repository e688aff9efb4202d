"""``vlmguard doctor`` and ``vlmguard rule``: what is armed here, and what a rule means."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from vlmguard import __version__, compat, host, seams, settings
from vlmguard.arming import is_off
from vlmguard.facts import Run
from vlmguard.stop import SettingsError

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
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
    for strategy in ("ddp", "zero3"):
        unknown = compat.untested(Run("", releases, strategy))
        for name in unknown:
            console.print(f"[yellow]{name} was not run by us ({strategy})[/yellow]")
    try:
        used = settings.resolve()
        settings.check_codes(used, host.get().rules)
        console.print(f"settings {used.digest} from {', '.join(used.sources) or 'defaults'}")
    except SettingsError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(2) from None
    for adapter, distribution in _ADAPTERS.items():
        _show(console, adapter, distribution)


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
    rules = host.get().rules
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
