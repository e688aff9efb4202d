"""What the lab's commands ``run`` and ``envs`` do: progress shown, records kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from tools.lab import cases, envs, records, runner
from tools.lab.cases import Case


def chosen(part: str, only: Sequence[str]) -> list[Case]:
    """The cases to measure; part as in `cases.of_part`. Raises ValueError."""
    return list(cases.select((c for c in cases.all_cases() if cases.of_part(part, c)), only))


def run(env: str, only: Sequence[str], part: str, jobs: int, seed: int, again: bool) -> int:
    """Measure and record; the exit code: 0, 1 with faults, 2 for what was asked wrongly."""
    console = Console(stderr=True)
    of = envs.sets().get(env)
    if of is None:
        return _wrong(console, f"no release set {env}; there are {', '.join(envs.sets())}")
    try:
        wanted = chosen(part or of.measure, only)
    except ValueError as error:
        return _wrong(console, str(error))
    try:
        envs.make(of)
    except envs.CannotInstall as error:
        return _wrong(console, f"{env} cannot be installed: {error}", 1)
    done = {} if again else records.load(env)
    todo = [case for case in wanted if case not in done or done[case]["seed"] != seed]
    console.print(f"{env}: {len(wanted)} cases, {len(wanted) - len(todo)} recorded already")
    try:
        sink = records.Sink(env)
    except records.Busy as error:
        return _wrong(console, str(error), 1)
    try:
        faults = _measure(console, of, todo, jobs, seed, sink)
        for fault in faults:
            console.print(f"[red]no verdict[/red] {escape(fault)}")
        console.print(f"records: {records.pack(env).name}")
    finally:
        sink.close()
    return 1 if faults else 0


def _wrong(console: Console, text: str, code: int = 2) -> int:
    console.print(f"[red]{escape(text)}[/red]")
    return code


def _measure(
    console: Console,
    of: envs.ReleaseSet,
    todo: Sequence[Case],
    jobs: int,
    seed: int,
    sink: records.Sink,
) -> list[str]:
    last = TextColumn("{task.fields[last]}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), last)
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("cases", total=len(todo), last="")

        def told(case: Case, fields: dict[str, Any]) -> None:
            sink.put(records.make(of.name, of.releases, case, seed, fields))
            progress.update(bar, advance=1, last=f"{case.key} {fields['verdict']}")

        return runner.measure(of, todo, seed, "gloo", jobs, told)


def environments(make: Sequence[str], remove: Sequence[str]) -> int:
    """Make, remove, list; the exit code: 0, 1 if one could not be made, 2 for an unknown set."""
    console = Console()
    known = envs.sets()
    if unknown := [name for name in make if name not in known]:
        return _wrong(console, f"no release set {unknown[0]}; there are {', '.join(known)}")
    for release in remove:
        envs.remove(release)
    code = 0
    for name in make:
        with console.status(f"{name} …"):
            try:
                envs.make(known[name])
            except envs.CannotInstall as error:
                code = _wrong(console, f"{name}: {error}", 1)
    _list(console, known)
    return code


def _list(console: Console, known: dict[str, envs.ReleaseSet]) -> None:
    releases = "torch deepspeed transformers peft"
    table = Table(Column("set", no_wrap=True), releases, "records", "here")
    states = envs.states()
    for name, of in known.items():
        state = states.get(name, {"state": "not made", "reason": None})
        here = "yes" if envs.python(of).exists() else "no"
        told = state["reason"] or (here if state["state"] == "made" else state["state"])
        part = len(chosen(of.measure, ()))
        count = f"{len(records.load(name))} of {part}"
        table.add_row(name, " ".join(of.releases.values()), count, escape(told))
    console.print(table)
