"""``vlmguard ledger``: what the first steps of a run trained, from its report.

VLMGUARD_REPORT=run.json swift sft …
vlmguard ledger run.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vlmguard.cli import messages


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("ledger")(ledger)


def ledger(
    report: Annotated[
        Path, typer.Argument(help="the file that VLMGUARD_REPORT named", metavar="REPORT")
    ],
    html: Annotated[
        str, typer.Option(metavar="PAGE", help="write one HTML page that needs no network")
    ] = "",
    run: Annotated[
        int,
        typer.Option(
            metavar="N",
            show_default=False,
            help="which run of the report, from 1 (default: the last one)",
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON for another program")] = False,
) -> None:
    """Show what the first steps of a run trained.

    It shows which tokens were targets, which gradients came, which weights moved, and whether all
    of it balances. To get a report, put VLMGUARD_REPORT=run.json in front of your training command.

    Example: `vlmguard ledger run.json --html run.html`

    Exit status: 0, it was shown or written; 2, there is no such report or run, or it cannot be
    read.
    """
    records = _run(report, run)
    if as_json:
        messages.show_json(records)
    elif html:
        _write(Path(html), records, report.name)
    else:
        _show(records)


def _run(report: Path, number: int) -> list[dict[str, Any]]:
    from vlmguard.ledger.report import read

    try:
        found = read.runs(report)
    except read.ReportError as error:
        messages.fail(str(error))
    if not 0 <= number <= len(found):
        messages.fail(f"{report}: no run {number}: there are {len(found)} runs, numbered from 1")
    if len(found) > 1 and not number:
        typer.echo(f"run {len(found)} of {len(found)} in {report}; --run N shows another", err=True)
    return found[number - 1]


def _show(records: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from vlmguard.ledger.report import show

    Console(highlight=False, emoji=False, markup=False).print(show.view(records))


def _write(page: Path, records: list[dict[str, Any]], name: str) -> None:
    from vlmguard.ledger.report import page as pages

    try:
        page.write_bytes(pages.page(records, name).encode("utf-8", "xmlcharrefreplace"))
    except OSError as error:
        messages.fail(f"{page}: cannot be written: {error.strerror}")
    typer.echo(f"{page}: one page, to be opened in a browser")
