"""``python -m tools.lab``: measure release sets on this machine's CPU."""

from __future__ import annotations

from typing import Annotated

import typer

lab = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@lab.callback()
def _lab() -> None:
    """Measure release sets on this machine's CPU. Records and tables are those of compat/."""


_Only = Annotated[
    list[str] | None,
    typer.Option(help="axis=value[,value] or a case's key; may be given again, all must hold"),
]


@lab.command()
def run(
    env: Annotated[str, typer.Option(help="a release set of compat/envs.toml")],
    only: _Only = None,
    part: Annotated[str, typer.Option(help="a part of cases.PARTS; else as the set says")] = "",
    jobs: Annotated[int, typer.Option(help="cases at once, two ranks each", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="of weights and data")] = 0,
    again: Annotated[bool, typer.Option(help="measure what is recorded, too")] = False,
) -> None:
    """Measure a release set; resumes where it stopped."""
    from tools.lab import campaign

    raise typer.Exit(campaign.run(env, only or [], part, jobs, seed, again))


@lab.command()
def envs(
    make: Annotated[list[str] | None, typer.Option(help="make this set's environment")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="delete this torch release")] = None,
) -> None:
    """List the release sets, make or remove their environments."""
    from tools.lab import campaign

    raise typer.Exit(campaign.environments(make or [], remove or []))


@lab.command()
def bisect(
    env: Annotated[str, typer.Option(help="the release set whose other packages stay")],
    package: Annotated[str, typer.Option(help="torch, deepspeed, transformers or peft")],
    low: Annotated[str, typer.Option("--from", help="its release before the flip")],
    high: Annotated[str, typer.Option("--to", help="its release after the flip")],
    only: _Only = None,
    jobs: Annotated[int, typer.Option(help="cases at once", min=1)] = 1,
) -> None:
    """Find the release with which a verdict flips: compat/bisected.toml."""
    from tools.lab import bisect, table

    code = bisect.run(env, package, low, high, only or [], jobs)
    if not code:
        table.write()
    raise typer.Exit(code)


@lab.command()
def agree(
    env: Annotated[str, typer.Option(help="a release set of compat/envs.toml")] = "newest",
    number: Annotated[int, typer.Option(help="cases to draw", min=1)] = 120,
    draw: Annotated[int, typer.Option(help="seed of the draw")] = 0,
    jobs: Annotated[int, typer.Option(help="cases at once", min=1)] = 1,
) -> None:
    """Measure drawn cases on gloo and on the referee: compat/agreement.toml."""
    from tools.lab import agreement, table

    code = agreement.run(env, number, draw, jobs)
    if not code:
        table.write()
    raise typer.Exit(code)


@lab.command()
def table() -> None:
    """The records to compat/verdicts.toml and docs/compatibility.md."""
    from tools.lab import table

    table.write()


@lab.command()
def defaults(
    only: Annotated[list[str] | None, typer.Option(help="read this package only")] = None,
) -> None:
    """What releases do when nothing is said, from their sources: compat/defaults.toml."""
    from tools.lab import defaults, table

    defaults.write(only or ())
    table.write()


@lab.command()
def seams(
    only: Annotated[list[str] | None, typer.Option(help="read this framework only")] = None,
) -> None:
    """Where each seam is in every release of the frameworks: compat/seams.toml."""
    from tools.lab import seamtable, table

    seamtable.write(only or ())
    table.write()


if __name__ == "__main__":
    lab(prog_name="python -m tools.lab")
