"""``vlmguard selftest``: a tiny run in two ranks that crashes without the guard, trains with it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import tempfile
import time
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from vlmguard.cli import messages, probe

LIMIT = 300.0


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("selftest")(selftest)


def selftest(
    framework: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="a framework's import name, as in swift (default: the first one installed)",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON for another program")] = False,
) -> None:
    """Train a tiny model on this CPU, without vlmguard and with it.

    Without vlmguard the training must crash, with vlmguard it must train. This needs no GPU,
    downloads nothing and takes under a minute of processor time.

    Exit status: 0, both went as expected; 1, one did not, or it could not be tried; 2, the
    framework is not installed.
    """
    chosen = _choose(framework)
    started, before = time.monotonic(), _processor()
    if not as_json:
        typer.echo(f"{chosen.name} {chosen.release}: a tiny model in two ranks on this CPU …")
    told = _run(chosen)
    crashed = told["off"]["verdict"] == "crash" and told["crash"] in told["off"]["message"]
    trained = told["on"]["verdict"] == "ok"
    told = {
        **told,
        "passed": crashed and trained,
        "seconds": round(time.monotonic() - started, 1),
        "processor": round(_processor() - before, 1),
    }
    if as_json:
        messages.show_json(told)
    else:
        _show(told, crashed, trained)
    raise typer.Exit(int(not told["passed"]))


def _processor() -> float:
    """Seconds of processor time of all that has ended of what was started here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _choose(framework: str) -> probe.Framework:
    """The first framework with a self-test, or the one asked for."""
    start = probe.start()
    if start.error:
        messages.fail(f"selftest: a Python could not be asked: {start.error}", 1)
    able = [each for each in start.frameworks if _tries(each.adapter)]
    wanted = [each for each in able if framework in ("", each.package, each.name)]
    if not wanted:
        there = ", ".join(each.package for each in able)
        lacking = f"{framework} is not" if framework else "no framework with a self-test is"
        others = f"; there is: {there}" * bool(there)
        messages.fail(f"selftest: {lacking} installed here{others}")
    return wanted[0]


def _run(chosen: probe.Framework) -> dict[str, Any]:
    command = [*probe.python(), "-m", "vlmguard.selftest.worker", chosen.adapter]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("VLMGUARD") or k == PATH}
    with tempfile.TemporaryDirectory(prefix="vlmguard-selftest-") as folder:
        try:
            done = subprocess.run([*command, folder], cwd=folder, env=clean, text=True,
                                  capture_output=True, timeout=LIMIT)  # fmt: skip
        except subprocess.TimeoutExpired:
            messages.fail(f"selftest: not done after {LIMIT:.0f} s; this machine is too busy", 1)
    from vlmguard.selftest.worker import MARK

    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        messages.fail(f"selftest: it could not be made:\n{(done.stderr or done.stdout)[-3000:]}", 1)
    told: dict[str, Any] = json.loads(lines[-1].removeprefix(MARK))
    if "error" in told:
        messages.fail(f"selftest: {chosen.name} cannot be imported here: {told['error']}", 1)
    return told


PATH = "VLMGUARD_PATH"


def _show(told: dict[str, Any], crashed: bool, trained: bool) -> None:
    off, on = told["off"], told["on"]
    typer.echo(f"  guard off: {_end(off)}   {'as told' if crashed else 'NOT as told'}")
    typer.echo(f"  guard on:  {_end(on)}   {'as told' if trained else 'NOT as told'}")
    for finding in on["findings"]:
        if finding["outcome"] == "fixed":
            typer.echo(f"    {finding['code']} fixed: {finding['change']}: {finding['why']}")
    end = "passed" if told["passed"] else "FAILED"
    typer.echo(f"{end} in {told['seconds']:.0f} s, {told['processor']:.0f} s of processor time")


def _end(run: dict[str, Any]) -> str:
    if run["verdict"] == "ok":
        return f"trained, {run['seconds']:.0f} s"
    first = run["message"].partition(". ")[0][:120]
    return f"{run['verdict']}, {run['seconds']:.0f} s: {first}"


def _tries(adapter: str) -> bool:
    """Whether an adapter has a run to try; one that is a single module has none."""
    with contextlib.suppress(ModuleNotFoundError):
        return find_spec(f"{adapter}.selftest") is not None
    return False
