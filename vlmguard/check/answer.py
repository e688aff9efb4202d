"""Everything that `check` says of one file or command, before it is printed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmguard.check import judge, launcher, script
from vlmguard.check.judge import Verdict
from vlmguard.check.reading.named_files import Files
from vlmguard.check.script import Reading


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
    return Answer(
        reading,
        tuple(judge.job(job, files, reading.trace, releases, deeply) for job in reading.jobs),
    )


def of_script(
    path: str, arguments: Sequence[str], releases: Mapping[str, str], shell: bool = True,
    deeply: bool = False,
) -> Answer:  # fmt: skip
    """Check a script. Raises `OSError` where it cannot be read."""
    if not shell:
        return of(script.literally(path), releases, deeply)
    return of(script.of_file(path, arguments, os.environ), releases, deeply)


def of_command(words: Sequence[str], releases: Mapping[str, str], deeply: bool = False) -> Answer:
    """Check a command as it was typed."""
    return of(script.of_words(words, os.environ), releases, deeply)
