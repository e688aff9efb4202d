"""Everything that `check` says of one file or command, before it is printed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vlmguard.check import judge, launcher, script
from vlmguard.check.judge import Verdict
from vlmguard.check.reading.named_files import Files
from vlmguard.check.script import Reading
from vlmguard.check.shell.state import Remark

SECONDS = 8
"""After which no further command of a script is judged: one takes a twentieth of a second."""


@dataclass(frozen=True)
class Answer:
    """One script or command, and a verdict for each of its jobs."""

    reading: Reading
    verdicts: tuple[Verdict, ...] = ()

    def code(self, strict: bool) -> int:
        """0: nothing above a note; 1: an error; 2: cannot tell. The worst of all, 1 before 2."""
        codes = [verdict.code(strict) for verdict in self.verdicts]
        if 1 in codes:
            return 1
        unclear = bool(self.reading.refused) or any(self.hidden)
        empty = not self.verdicts and bool(self.reading.unseen)
        return 2 if 2 in codes or unclear or empty else 0

    @property
    def hidden(self) -> tuple[bool, ...]:
        """Whether a command that nobody looked into seems to train, one by one."""
        return tuple(launcher.suspicious(call) for call in self.reading.unseen)


def of(reading: Reading, releases: Mapping[str, str], deeply: bool = False) -> Answer:
    """Judge every job of a reading. deeply: each framework is asked in a process of its own."""
    files = Files(os.getcwd(), reading.files)
    begun = time.monotonic()
    verdicts = []
    for job in reading.jobs:
        if time.monotonic() - begun > SECONDS and not deeply:
            told = f"{len(reading.jobs)} commands: not all of them were looked at in {SECONDS} s"
            verdicts.append(Verdict(job, judge.CANNOT, told))
        else:
            verdicts.append(judge.job(job, files, reading.trace, releases, deeply))
    return Answer(reading, tuple(verdicts))


def of_script(
    path: str, arguments: Sequence[str], releases: Mapping[str, str], shell: bool = True,
    deeply: bool = False,
) -> Answer:  # fmt: skip
    """Check a script. Raises `OSError` where it cannot be read."""
    if not shell:
        return of(script.literally(path), releases, deeply)
    found = of(script.of_file(path, arguments, os.environ), releases, deeply)
    if found.code(True) or any(verdict.state != judge.NOTHING for verdict in found.verdicts):
        return found
    return replace(found, reading=replace(found.reading, refused=tuple(_missed(path, releases))))


def _missed(path: str, releases: Mapping[str, str]) -> Iterator[Remark]:
    """Of a script that starts nothing as it is called: the commands in it that would train."""
    for verdict in of(script.literally(path), releases).verdicts:
        if verdict.state != judge.NOTHING:
            call = verdict.job.call
            told = f"whether {verdict.job.target} runs: as the script is called here, it does not"
            yield Remark(call.line, call.source, f"{told} (does it need arguments?)")


def of_command(words: Sequence[str], releases: Mapping[str, str], deeply: bool = False) -> Answer:
    """Check a command as it was typed."""
    return of(script.of_words(words, os.environ), releases, deeply)
