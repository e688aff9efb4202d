"""Every training command of a script, one after the other, in as few warm processes as it takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from vlmguard.check import launcher, options
from vlmguard.check.judge import Verdict
from vlmguard.check.reading.named_files import Files
from vlmguard.check.script import Reading
from vlmguard.check.show import line, mended
from vlmguard.rehearse import client
from vlmguard.rehearse.own_script import command as own_script
from vlmguard.rehearse.prepare import Prepared, Refused, prepare
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.show import Told
from vlmguard.rehearse.verdict import AS_SHOWN, beside


def rehearse(
    reading: Reading, world: int | None, thorough: bool, yes: bool, quiet: bool
) -> tuple[list[Told], int]:
    """What was found for each job, and the exit status: 1 before 2 before 3 before 0."""
    files = Files(os.getcwd(), reading.files)
    told: list[Told] = []
    with ExitStack() as stack:
        folder = stack.enter_context(client.place())
        workers: dict[str, client.Worker] = {}
        for number, job in enumerate(reading.jobs):
            scratch = folder / str(number)
            scratch.mkdir()
            typed = ""
            try:
                prepared = prepare(job, files, reading.trace, scratch, world, thorough)
                _consent(prepared, yes)
                adapter = prepared.request.adapter
                if adapter not in workers:
                    workers[adapter] = stack.enter_context(client.Worker(adapter, folder))
                answer = workers[adapter].ask(as_set(prepared.request, job), Live(quiet))
                answer = with_check(answer, prepared.verdict)
                if prepared.verdict.edits:
                    typed = mended(prepared.verdict, reading.trace)
            except Refused as refused:
                answer = _refusal(refused)
            except client.Ended as ended:
                answer = {"verdict": "cannot tell", "exit": 2, "why": str(ended)}
            words = (*job.prefix, *job.argv)
            told.append(Told(job.call, words, answer, reading.trace, typed))
    codes = [one.code for one in told]
    unclear = bool(reading.refused) or any(launcher.suspicious(call) for call in reading.unseen)
    unclear = unclear or (not told and bool(reading.unseen))
    codes += [2] if unclear else []
    return told, next((code for code in (1, 2, AS_SHOWN) if code in codes), 0)


def as_set(request: Request, job: launcher.Job) -> Request:
    """Without the passes of a guard that the command itself switches off."""
    if not options.is_off(job.env):
        return request
    return replace(request, passes=tuple(one for one in request.passes if one != "on"))


def with_check(answer: Mapping[str, Any], checked: Verdict) -> dict[str, Any]:
    """The answer beside what `check` found of the same command."""
    said = [(finding.level, f"{finding.code} {finding.why}") for finding, _ in checked.findings]
    errors = [text for level, text in said if level == "error"]
    warned = [text for level, text in said if level == "warning"]
    return beside(dict(answer), errors, [*warned, *checked.unread, *checked.switched])


def _refusal(refused: Refused) -> dict[str, Any]:
    words = {0: "does not train", 1: "crash", 2: "cannot tell"}
    return {"verdict": words[refused.code], "exit": refused.code, "why": str(refused)}


def nothing(reading: Reading) -> str:
    """The message for a script without a training command."""
    hidden = [line(call.words, reading.trace)[:80] for call in reading.unseen]
    if reading.refused:
        return f"not understood: {reading.refused[0].text}"
    return "no training command" + (f"; not seen inside: {hidden[0]}" if hidden else "")


def _consent(prepared: Prepared, yes: bool) -> None:
    """The user's own code runs only where the user says so."""
    if yes or not prepared.code:
        return
    what = "; ".join(prepared.code)
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"This runs code of your own: {what}\nRun it here? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise Refused(f"your own code was not run: {what}")
    if prepared.request.adapter == own_script.ADAPTER:
        raise Refused(f"{what} is your own code, and nothing of it was run: --yes runs it here: "
                      f"vlmguard rehearse --yes …")  # fmt: skip
    raise Refused(f"this would run code of your own ({what}): allow it with --yes")


class Live:
    """A line for each pass on standard error, and a moving one on a terminal."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.status: Any = None

    def __call__(self, told: Mapping[str, Any]) -> None:
        if self.quiet:
            return
        if told["event"] == "began" and sys.stderr.isatty():
            self._spin(told["pass"])
        elif told["event"] == "judged":
            self._stop()
            kind = f" {told['kind']}," if told["kind"] else ""
            sys.stderr.write(f"  {told['pass']}:{kind} {told['seconds']:.1f} s\n")
            sys.stderr.flush()

    def _spin(self, name: str) -> None:
        from rich.console import Console

        self._stop()
        self.status = Console(stderr=True).status(f"{name} …")
        self.status.start()

    def _stop(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None
